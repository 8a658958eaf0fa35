// Writes the Grafana dashboard deploy/grafana/livery.json from its description beside it: `npm run dashboard`. `--check` writes
// nothing, and fails if it is not current.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROWS } from '../deploy/grafana/panels.mjs'
import { root, say } from './setup-step.mjs'

const FILE = join(root, 'deploy/grafana/livery.json')
/** Columns of Grafana's grid. */
const COLUMNS = 24
const PANEL = { width: 6, height: 8 }
const DATASOURCE = { type: 'prometheus', uid: '$datasource' }

const wanted = `${JSON.stringify(dashboard(), undefined, 2)}\n`
if (process.argv.includes('--check')) {
  const isCurrent = existsSync(FILE) && readFileSync(FILE, 'utf8') === wanted
  if (!isCurrent) say('deploy/grafana/livery.json is not what its description makes. Run npm run dashboard')
  process.exit(isCurrent ? 0 : 1)
}
writeFileSync(FILE, wanted)

function dashboard() {
  return {
    uid: 'livery',
    title: 'Livery',
    tags: ['livery'],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '1m',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        variable('job', 'label_values(livery_build_info, job)'),
        variable('instance', 'label_values(livery_build_info{job=~"$job"}, instance)'),
      ],
    },
    panels: panels(),
  }
}

function variable(name, query) {
  return {
    name,
    type: 'query',
    datasource: DATASOURCE,
    query: { query, refId: name },
    refresh: 2,
    multi: true,
    includeAll: true,
    current: { text: 'All', value: '$__all' },
  }
}

/** One line per row, and its panels below, four in a line. */
function panels() {
  const laid = []
  let y = 0
  for (const { title, panels } of ROWS) {
    laid.push({ type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: COLUMNS, h: 1 }, panels: [] })
    y += 1
    const perLine = COLUMNS / PANEL.width
    for (const [index, each] of panels.entries()) {
      const x = (index % perLine) * PANEL.width
      const line = Math.floor(index / perLine)
      laid.push(panel(each, { x, y: y + line * PANEL.height, w: PANEL.width, h: PANEL.height }))
    }
    y += Math.ceil(panels.length / perLine) * PANEL.height
  }
  return laid.map((each, index) => ({ id: index + 1, ...each }))
}

function panel({ title, kind, unit = 'short', about, queries }, gridPos) {
  return {
    type: kind,
    title,
    ...(about && { description: about }),
    datasource: DATASOURCE,
    gridPos,
    fieldConfig: { defaults: { unit, min: unit === 's' ? undefined : 0 }, overrides: [] },
    options:
      kind === 'timeseries' ? { legend: { displayMode: 'list' } } : { reduceOptions: { calcs: ['lastNotNull'] } },
    targets: Object.entries(queries).map(([legendFormat, expr], index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  }
}
