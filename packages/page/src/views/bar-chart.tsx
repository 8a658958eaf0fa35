/** Renewals in each of the next 60 minutes. */
import { counted } from '../parts/text.ts'

const HEIGHT = 80
const STEP = 10

export function BarChart({ values }: { readonly values: readonly number[] }) {
  const highest = Math.max(1, ...values)
  const busiest = values.indexOf(highest)
  const text = `${counted(highest, 'renewal')} in the busiest minute, ${busiest <= 0 ? 'this one' : `in ${counted(busiest, 'minute')}`}`
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${STEP * values.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Planned renewals per minute: ${text}`}
      >
        {values.map((value, minute) => (
          <rect
            key={minute}
            x={STEP * minute + 1}
            width={STEP - 2}
            y={HEIGHT - (HEIGHT * value) / highest}
            height={(HEIGHT * value) / highest}
          />
        ))}
      </svg>
      <figcaption class="muted">
        <span>now</span>
        <span>{text}</span>
        <span>in an hour</span>
      </figcaption>
    </figure>
  )
}
