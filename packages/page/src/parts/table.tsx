/** A short table. */
import type { ComponentChildren } from 'preact'

interface TableProps {
  readonly caption: string
  readonly head: readonly string[]
  readonly rows: readonly {
    readonly key: string
    readonly isBad?: boolean
    readonly cells: readonly ComponentChildren[]
  }[]
  readonly empty: string
}

/** The first cell of a row names it. */
export function Table({ caption, head, rows, empty }: TableProps) {
  return (
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {head.map(title => (
            <th scope="col" key={title}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, isBad, cells: [first, ...others] }) => (
          <tr key={key} class={isBad ? 'row-warning' : ''}>
            <th scope="row">{first}</th>
            {others.map((cell, index) => (
              <td key={head[index + 1]}>{cell}</td>
            ))}
          </tr>
        ))}
        {rows.length === 0 ? (
          <tr>
            <td colSpan={head.length} class="muted">
              {empty}
            </td>
          </tr>
        ) : null}
      </tbody>
    </table>
  )
}
