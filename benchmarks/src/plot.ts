/** Line plots as SVG text: equal numbers give equal text, so that a plot can be committed and a re-run compared. */
import { CustomChart, type CustomSeriesOption, LineChart, type LineSeriesOption } from 'echarts/charts'
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components'
import { init, use } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'

/** One axis; `name` says what it shows, with the unit. */
interface PlotAxis {
  readonly name: string
  /** Logarithmic, base 10; every value on it must be above 0. */
  readonly log?: boolean
}

/** A value; for a median of few samples also the lowest and the highest of them. */
export type PlotPoint =
  | readonly [x: number, y: number]
  | readonly [x: number, y: number, lowest: number, highest: number]

export interface PlotSeries {
  readonly name: string
  readonly points: readonly PlotPoint[]
  /** Default: solid. */
  readonly line?: 'dashed' | 'dotted'
}

/** All series share the unit of `y`. */
interface LinePlot {
  readonly title: string
  /** The subtitle: what was done, how often, on which machine. */
  readonly conditions: string
  readonly x: PlotAxis
  readonly y: PlotAxis
  readonly series: readonly PlotSeries[]
}

const WIDTH = 760
/** The height of axes and lines, without the title and the legend. */
const GRID_HEIGHT = 262
const MARGIN = 16
/** Characters a line. The renderer measures no text, so the limit fits a wide font. */
const TITLE_COLUMNS = 80
const CONDITION_COLUMNS = 105
const LEFT = 64
/** The height of the title and of the axis name. */
const ABOVE_GRID = 68
const CONDITION_LINE = 15
const BELOW_GRID = 56
/** The legend has one series a line: names side by side run into each other. */
const LEGEND_LINE = 20
const LEGEND_TEXT = 14
/** Pixels: half of the stroke's width at each end of a range. */
const RANGE_CAP = 4
/** Mid-tones with a contrast of 3:1 to white and to near-black, since the page's background is unknown. */
const COLORS = ['#2f81d6', '#d9640f', '#2a9d62', '#b663d1', '#c0812a', '#d8506e', '#1d98a8', '#7d7dd8']
const TEXT = '#7d8590'
const GRID_LINE = 'rgba(125,133,144,0.3)'
/** The dots of more points would hide the line. */
const MOST_DOTS = 40

use([CustomChart, LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer])

/**
 * Draws `plot` and returns a whole SVG document without a background.
 * Throws a RangeError for a value that is not finite, or not above 0 on a logarithmic axis.
 */
export function linePlot(plot: LinePlot): string {
  checkPoints(plot)
  const { title, conditions, series } = plot
  const subtext = inLines(conditions, CONDITION_COLUMNS)
  const top = ABOVE_GRID + subtext.split('\n').length * CONDITION_LINE
  const legend = series.length > 1 ? series.length * LEGEND_LINE : 0
  const bottom = BELOW_GRID + legend
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height: top + GRID_HEIGHT + bottom })
  try {
    chart.setOption({
      animation: false,
      title: {
        text: inLines(title, TITLE_COLUMNS),
        subtext,
        left: MARGIN,
        top: 8,
        itemGap: 6,
        textStyle: { color: TEXT, fontSize: 15 },
        subtextStyle: { color: TEXT, fontSize: 12, lineHeight: CONDITION_LINE },
      },
      legend: {
        data: series.map(({ name }) => name),
        show: legend > 0,
        orient: 'vertical',
        left: LEFT,
        bottom: 4,
        itemGap: LEGEND_LINE - LEGEND_TEXT,
        itemWidth: 40,
        itemHeight: LEGEND_TEXT,
        textStyle: { color: TEXT, fontSize: 12 },
      },
      grid: { left: LEFT, right: 48, top, bottom },
      xAxis: { ...axis(plot.x), nameLocation: 'middle', nameGap: 30 },
      yAxis: { ...axis(plot.y), nameLocation: 'end', nameTextStyle: { color: TEXT, align: 'left' } },
      series: series.flatMap((one, index) => {
        const color = COLORS[index % COLORS.length] ?? TEXT
        return [lineOf(one, color), rangesOf(one, color)]
      }),
    })
    return `${withTitle(withStableIds(withoutHover(chart.renderToSVGString())), title)}\n`
  } finally {
    chart.dispose()
  }
}

function checkPoints({ title, x, y, series }: LinePlot): void {
  for (const { name, points } of series) {
    for (const [at, ...values] of points) {
      for (const [axis, value] of [[x, at] as const, ...values.map(value => [y, value] as const)]) {
        if (Number.isFinite(value) && !(axis.log && value <= 0)) continue
        const reason = axis.log ? 'a logarithmic axis shows finite numbers above 0' : 'only finite numbers can be drawn'
        throw new RangeError(`Cannot draw "${title}": series "${name}" has ${axis.name} = ${value}, but ${reason}`)
      }
    }
  }
}

function inLines(text: string, columns: number): string {
  return text.replaceAll(new RegExp(`(?=.{${columns + 1}})(.{1,${columns}}) `, 'g'), '$1\n')
}

function axis({ name, log = false }: PlotAxis) {
  return {
    type: log ? ('log' as const) : ('value' as const),
    name,
    nameTextStyle: { color: TEXT },
    axisLabel: { color: TEXT, formatter: formatTick },
    // Not at 0 of the other axis: the axis stays beside its labels.
    axisLine: { show: true, onZero: false, lineStyle: { color: TEXT } },
    splitLine: { lineStyle: { color: GRID_LINE } },
  }
}

function formatTick(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 3 })
}

function lineOf({ name, points, line }: PlotSeries, color: string): LineSeriesOption {
  return {
    type: 'line',
    name,
    data: points.map(([x, y]) => [x, y]),
    symbol: line === 'dotted' ? 'none' : 'circle',
    showSymbol: points.length <= MOST_DOTS,
    symbolSize: 6,
    itemStyle: { color },
    lineStyle: { color, width: 2, type: line ?? 'solid' },
  }
}

/** A vertical stroke from the lowest to the highest sample of each point that has them. */
function rangesOf({ points }: PlotSeries, color: string): CustomSeriesOption {
  return {
    type: 'custom',
    silent: true,
    data: points.flatMap(([x, , lowest, highest]) => (lowest === undefined ? [] : [[x, lowest, highest ?? lowest]])),
    encode: { x: 0, y: [1, 2] },
    renderItem: (_params, api) => {
      const [x = 0, bottom = 0] = api.coord([api.value(0), api.value(1)])
      const [, top = 0] = api.coord([api.value(0), api.value(2)])
      const d = `M${x},${bottom}V${top}M${x - RANGE_CAP},${bottom}h${2 * RANGE_CAP}M${x - RANGE_CAP},${top}h${2 * RANGE_CAP}`
      return { type: 'path', shape: { pathData: d }, style: { stroke: color, fill: 'none', lineWidth: 1.5 } }
    },
  }
}

/** A static picture needs neither the hover rules nor the classes that they name. */
function withoutHover(svg: string): string {
  return svg.replace(/<style[^>]*>.*?<\/style>\n?/s, '').replaceAll(/ class="[^"]*"/g, '')
}

/** Renumbers ids by their place in this plot: the renderer numbers them over the life of the process. */
function withStableIds(svg: string): string {
  const renamed = new Map<string, string>()
  return svg.replaceAll(/\bzr\d+-[\w-]+/g, id => {
    const known = renamed.get(id) ?? `p${renamed.size}`
    renamed.set(id, known)
    return known
  })
}

/** Readers who cannot see the picture get the title. */
function withTitle(svg: string, title: string): string {
  const escaped = title.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return svg.replace('>', () => `>\n<title>${escaped}</title>`)
}
