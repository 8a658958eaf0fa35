/** Line plots as SVG text: equal numbers give equal text, so that a plot can be committed and a re-run compared. */
import { LineChart, type LineSeriesOption } from 'echarts/charts'
import { GridComponent, LegendComponent, MarkLineComponent, TitleComponent } from 'echarts/components'
import { init, use } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'

/** One axis; `name` says what it shows, with the unit. */
export interface PlotAxis {
  readonly name: string
  /** Logarithmic, base 10; every value on it must be above 0. */
  readonly log?: boolean
}

export interface PlotSeries {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
  readonly dashed?: boolean
}

/** A named level across the plot, such as a target: at an x or at a y. */
export type PlotMark = { readonly name: string } & ({ readonly x: number } | { readonly y: number })

export interface LinePlot {
  readonly title: string
  readonly x: PlotAxis
  readonly y: PlotAxis
  readonly series: readonly PlotSeries[]
  readonly marks?: readonly PlotMark[]
}

const WIDTH = 760
const HEIGHT = 420
/** Mid-tones that keep a contrast of 3:1 to white and to near-black alike, since the page behind the plot is unknown. */
const COLORS = ['#2f81d6', '#d9640f', '#2a9d62', '#b663d1', '#c0812a', '#d8506e', '#1d98a8', '#7d7dd8']
const TEXT = '#7d8590'
const GRID_LINE = 'rgba(125,133,144,0.3)'
/** With more points than this the dots would hide the line. */
const MOST_DOTS = 40

use([LineChart, GridComponent, LegendComponent, MarkLineComponent, TitleComponent, SVGRenderer])

/**
 * Draws `plot` and returns a whole SVG document without a background.
 * Throws a RangeError for a value that is not finite, or not above 0 on a logarithmic axis.
 */
export function linePlot(plot: LinePlot): string {
  checkPoints(plot)
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height: HEIGHT })
  try {
    chart.setOption({
      animation: false,
      color: COLORS,
      title: { text: plot.title, left: 'center', top: 8, textStyle: { color: TEXT, fontSize: 15 } },
      legend: { bottom: 4, itemWidth: 40, itemGap: 24, textStyle: { color: TEXT }, show: plot.series.length > 1 },
      grid: { left: 64, right: 48, top: 64, bottom: plot.series.length > 1 ? 80 : 56 },
      xAxis: { ...axis(plot.x), nameLocation: 'middle', nameGap: 30 },
      yAxis: { ...axis(plot.y), nameLocation: 'end', nameTextStyle: { color: TEXT, align: 'left' } },
      series: plot.series.map((one, index) => series(one, index === 0 ? (plot.marks ?? []) : [])),
    })
    return `${withTitle(withStableIds(withoutHover(chart.renderToSVGString())), plot.title)}\n`
  } finally {
    chart.dispose()
  }
}

function checkPoints({ title, x, y, series }: LinePlot): void {
  for (const { name, points } of series) {
    for (const point of points) {
      for (const [at, axis] of [x, y].entries()) {
        const value = point[at] ?? Number.NaN
        if (Number.isFinite(value) && !(axis.log && value <= 0)) continue
        const reason = axis.log ? 'a logarithmic axis shows finite numbers above 0' : 'only finite numbers can be drawn'
        throw new RangeError(`Cannot draw "${title}": series "${name}" has ${axis.name} = ${value}, but ${reason}`)
      }
    }
  }
}

function axis({ name, log = false }: PlotAxis) {
  return {
    type: log ? ('log' as const) : ('value' as const),
    name,
    nameTextStyle: { color: TEXT },
    axisLabel: { color: TEXT, formatter: formatTick },
    axisLine: { show: true, lineStyle: { color: TEXT } },
    splitLine: { lineStyle: { color: GRID_LINE } },
  }
}

function formatTick(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 3 })
}

function series({ name, points, dashed = false }: PlotSeries, marks: readonly PlotMark[]): LineSeriesOption {
  return {
    type: 'line',
    name,
    data: points.map(point => [...point]),
    symbol: 'circle',
    showSymbol: points.length <= MOST_DOTS,
    symbolSize: 6,
    lineStyle: { width: 2, type: dashed ? 'dashed' : 'solid' },
    markLine: {
      silent: true,
      symbol: 'none',
      lineStyle: { color: TEXT, type: 'dotted' },
      label: { color: TEXT, formatter: '{b}', position: 'insideStartTop' },
      data: marks.map(mark => ('x' in mark ? { name: mark.name, xAxis: mark.x } : { name: mark.name, yAxis: mark.y })),
    },
  }
}

/** A picture in a page has no use for the rules of what is under the mouse, nor for the classes that they name. */
function withoutHover(svg: string): string {
  return svg.replace(/<style[^>]*>.*?<\/style>\n?/s, '').replaceAll(/ class="[^"]*"/g, '')
}

/** The renderer numbers its ids over the life of the process: number them by their place in this plot. */
function withStableIds(svg: string): string {
  const renamed = new Map<string, string>()
  return svg.replaceAll(/\bzr\d+-[\w-]+/g, id => {
    const known = renamed.get(id) ?? `p${renamed.size}`
    renamed.set(id, known)
    return known
  })
}

/** For those who cannot see the picture. */
function withTitle(svg: string, title: string): string {
  const escaped = title.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return svg.replace('>', () => `>\n<title>${escaped}</title>`)
}
