/** A table of any length: the document contains only the visible rows. It follows the ARIA pattern of a grid whose rows are chosen by keys. */
// biome-ignore-all lint/a11y/useSemanticElements: rows of a table cannot be placed freely
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus and names its active row
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the grid takes the keys of all rows
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

export interface Column<Row> {
  readonly id: string
  readonly title: string
  readonly cell: (row: Row) => ComponentChildren
  /** Default: the column cannot be sorted by. */
  readonly sort?: 'ascending' | 'descending' | 'none'
}

interface GridProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  /** Class of a row, beside `grid-row`. */
  readonly classOf?: (row: Row) => string
  /** The key of the row whose details are shown. */
  readonly opened: string
  readonly onOpen: (row: Row) => void
  readonly onSort?: (column: string) => void
  /** Whether the user points at the rows or is among them, and would lose the place if they were sorted again. */
  readonly onAttention?: (isThere: boolean) => void
  readonly empty: string
}

/** Pixels, the same as in style.css. */
const ROW = 44
/** Rows above and below the visible ones, so that a quick scroll shows no gap. */
const MARGIN = 6

export function VirtualGrid<Row>(props: GridProps<Row>) {
  const { rows, columns, keyOf, onAttention } = props
  const scroller = useRef<HTMLDivElement>(null)
  const scrollTop = useSignal(0)
  const height = useSignal(600)
  const active = useSignal('')
  useHeight(scroller, size => {
    height.value = size
  })
  const first = Math.max(0, Math.floor(scrollTop.value / ROW) - MARGIN)
  const shown = rows.slice(first, first + Math.ceil(height.value / ROW) + 2 * MARGIN)
  const activeIndex = rows.findIndex(row => keyOf(row) === active.value)
  const isActiveShown = activeIndex >= first && activeIndex < first + shown.length

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== scroller.current) return
    const row = rows[activeIndex]
    if (event.key === 'Enter' && row !== undefined) props.onOpen(row)
    const next = moved(event.key, activeIndex, { last: rows.length - 1, page: Math.floor(height.value / ROW) - 2 })
    const target = next === undefined ? undefined : rows[next]
    if (next === undefined || target === undefined) return
    event.preventDefault()
    active.value = keyOf(target)
    if (scroller.current) bringIntoSight(scroller.current, next)
  }

  return (
    <div
      ref={scroller}
      class="grid"
      role="grid"
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={isActiveShown ? rowId(activeIndex) : undefined}
      tabIndex={0}
      onScroll={event => {
        scrollTop.value = event.currentTarget.scrollTop
      }}
      onKeyDown={onKeyDown}
      onPointerEnter={() => onAttention?.(true)}
      onPointerLeave={() => onAttention?.(false)}
    >
      <GridHead columns={columns} onSort={props.onSort} />
      <div class="grid-body" role="rowgroup" style={{ height: `${Math.max(1, rows.length) * ROW}px` }}>
        {shown.map((row, offset) => (
          <GridRow
            key={keyOf(row)}
            {...{ row, columns }}
            index={first + offset}
            class={`${props.classOf?.(row) ?? ''}${keyOf(row) === active.value ? ' active' : ''}`}
            isOpened={keyOf(row) === props.opened}
            onClick={() => {
              active.value = keyOf(row)
              props.onOpen(row)
            }}
          />
        ))}
        {rows.length === 0 ? (
          <div role="row" class="grid-row" aria-rowindex={2}>
            <div role="gridcell" class="grid-empty" aria-colspan={columns.length}>
              {props.empty}
            </div>
          </div>
        ) : null}
      </div>
    </div>
  )
}

function GridHead<Row>({
  columns,
  onSort,
}: {
  readonly columns: readonly Column<Row>[]
  readonly onSort: ((column: string) => void) | undefined
}) {
  return (
    <div class="grid-head" role="rowgroup">
      <div role="row" class="grid-row" aria-rowindex={1}>
        {columns.map(({ id, title, sort }) => (
          <div role="columnheader" key={id} class={`cell cell-${id}`} aria-sort={sort}>
            {sort === undefined ? (
              title
            ) : (
              <button type="button" class="sort" onClick={() => onSort?.(id)}>
                {title}
                <span aria-hidden="true">{sort === 'none' ? '' : sort === 'ascending' ? ' ↑' : ' ↓'}</span>
              </button>
            )}
          </div>
        ))}
      </div>
    </div>
  )
}

interface RowProps<Row> {
  readonly row: Row
  readonly columns: readonly Column<Row>[]
  readonly index: number
  readonly class: string
  readonly isOpened: boolean
  readonly onClick: () => void
}

function GridRow<Row>({ row, columns, index, class: classes, isOpened, onClick }: RowProps<Row>) {
  return (
    <div
      role="row"
      id={rowId(index)}
      class={`grid-row ${classes}`}
      aria-rowindex={index + 2}
      aria-selected={isOpened}
      style={{ transform: `translateY(${index * ROW}px)` }}
      onClick={onClick}
    >
      {columns.map(({ id, cell }) => (
        <div role="gridcell" key={id} class={`cell cell-${id}`}>
          {cell(row)}
        </div>
      ))}
    </div>
  )
}

function rowId(index: number): string {
  return `row-${index}`
}

/** The row that a key leads to; `undefined` for another key. */
function moved(
  key: string,
  from: number,
  { last, page }: { readonly last: number; readonly page: number },
): number | undefined {
  const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }
  if (key === 'Home') return 0
  if (key === 'End') return last
  const step = steps[key]
  return step === undefined ? undefined : Math.min(last, Math.max(0, from + step))
}

function bringIntoSight(scroller: HTMLElement, index: number): void {
  const head = scroller.firstElementChild?.clientHeight ?? 0
  const top = index * ROW
  const bottom = top + ROW - (scroller.clientHeight - head)
  if (scroller.scrollTop > top) scroller.scrollTop = top
  else if (scroller.scrollTop < bottom) scroller.scrollTop = bottom
}

function useHeight(element: { readonly current: HTMLElement | null }, onHeight: (height: number) => void): void {
  useEffect(() => {
    const { current } = element
    if (!current) return
    const observer = new ResizeObserver(() => onHeight(current.clientHeight))
    observer.observe(current)
    return () => observer.disconnect()
  }, [])
}
