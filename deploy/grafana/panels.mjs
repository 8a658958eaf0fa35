// The description of the Grafana dashboard: rows of panels, each with its queries by legend. `npm run dashboard` makes livery.json of it.

/** The agents that the variables at the top of the dashboard choose. */
const CHOSEN = 'job=~"$job",instance=~"$instance"'

/** A counter's rate, of the chosen agents, summed by these labels. */
const rate = (metric, ...labels) => `sum by (${labels.join(', ')}) (rate(${metric}_total{${CHOSEN}}[$__rate_interval]))`

/** A gauge of the chosen agents, summed by these labels. */
const sum = (metric, ...labels) => `sum by (${labels.join(', ')}) (${metric}{${CHOSEN}})`

/** The median and the p99 of a histogram of the chosen agents together. */
const quantiles = buckets =>
  Object.fromEntries(
    [0.5, 0.99].map(quantile => [
      `p${quantile * 100}`,
      `histogram_quantile(${quantile}, sum by (le) (rate(${buckets}[$__rate_interval])))`,
    ]),
  )

/**
 * `kind` is Grafana's type of panel. `unit` is one of Grafana's names of units, by default a plain number. `about` is shown at the
 * panel's title.
 */
export const ROWS = [
  {
    title: 'What is about to break',
    panels: [
      {
        title: 'Least life left of a certificate',
        kind: 'timeseries',
        unit: 'percentunit',
        about:
          'Certificates are renewed with 40 to 60 % of their life left. Below 25 % LiveryCertificateNotRenewed fires.',
        queries: { '{{instance}}': `livery_certificates_least_remaining_ratio{${CHOSEN}}` },
      },
      {
        title: 'The next certificate ends in',
        kind: 'stat',
        unit: 's',
        about: 'The first among all chosen agents.',
        queries: {
          remaining: `min(livery_certificates_earliest_expiration_timestamp_seconds{${CHOSEN}}) - time()`,
        },
      },
      {
        title: 'Identities that fail at the CA',
        kind: 'timeseries',
        about: 'livery certs lists them, with the reason.',
        queries: { '{{instance}} {{code}}': sum('livery_identities_failing', 'instance', 'code') },
      },
      {
        title: 'Agents whose CA does not answer',
        kind: 'stat',
        about: 'Each probes it with one request at a time.',
        queries: { agents: `sum(livery_ca_down{${CHOSEN}})` },
      },
    ],
  },
  {
    title: 'Certificates',
    panels: [
      {
        title: 'Identities by state',
        kind: 'timeseries',
        queries: { '{{state}}': sum('livery_identities', 'state') },
      },
      {
        title: 'Requests to the CA',
        kind: 'timeseries',
        unit: 'reqps',
        queries: { '{{reason}} {{result}}': rate('livery_certificate_requests', 'reason', 'result') },
      },
      {
        title: 'Errors of the CA',
        kind: 'timeseries',
        unit: 'reqps',
        queries: { '{{code}}': rate('livery_ca_errors', 'code') },
      },
      {
        title: 'Time of a request',
        kind: 'timeseries',
        unit: 's',
        about: 'From making the CSR to the checked certificate.',
        queries: quantiles(`livery_ca_request_duration_seconds_bucket{${CHOSEN},result="issued"}`),
      },
      {
        title: 'Certificates no longer served',
        kind: 'timeseries',
        unit: 'cps',
        about: 'expired: no new one came in time.',
        queries: { '{{reason}}': rate('livery_certificates_withdrawn', 'reason') },
      },
      {
        title: 'Clock of the CA against the clock of the node',
        kind: 'timeseries',
        unit: 's',
        about:
          'The notBefore of the newest certificate minus the time when it came. A node that differs from the others of its CA has a wrong clock.',
        queries: { '{{instance}}': `livery_ca_clock_ahead_seconds{${CHOSEN}}` },
      },
      {
        title: 'Certificates that clients would refuse',
        kind: 'timeseries',
        unit: 'cps',
        queries: { 'served: {{served}}': rate('livery_preflight_failures', 'served') },
      },
    ],
  },
  {
    title: 'Requests to come',
    panels: [
      {
        title: 'Requests that wait, by rank',
        kind: 'timeseries',
        about: 'on-demand: somebody waits for it.',
        queries: { '{{rank}}': sum('livery_ca_requests_queued', 'rank') },
      },
      {
        title: 'Requests in flight, and how many there may be',
        kind: 'timeseries',
        queries: {
          'in flight {{instance}}': `livery_ca_requests_in_flight{${CHOSEN}}`,
          'at most {{instance}}': `livery_ca_requests_window{${CHOSEN}}`,
        },
      },
      {
        title: 'Agents that pause',
        kind: 'timeseries',
        about:
          'rate-limited: the CA has no room. ca-down: it does not answer. clock-jumped: its roots are asked for first.',
        queries: { '{{reason}}': sum('livery_ca_paused', 'reason') },
      },
      {
        title: 'Renewals planned, by minute from now',
        kind: 'bargauge',
        queries: { '{{minute}}': sum('livery_renewals_planned', 'minute') },
      },
      {
        title: 'Certificates that end within this many seconds',
        kind: 'bargauge',
        queries: { '{{le}}': sum('livery_certificate_remaining_seconds_bucket', 'le') },
      },
    ],
  },
  {
    title: 'Roots',
    panels: [
      {
        title: 'Agents by phase of the root rotation',
        kind: 'timeseries',
        queries: { '{{trust_domain}} {{phase}}': sum('livery_root_rotation_phase', 'trust_domain', 'phase') },
      },
      {
        title: 'Clients that have not accepted a root',
        kind: 'timeseries',
        about: 'livery trust status names them.',
        queries: { '{{instance}} {{fingerprint}}': sum('livery_root_waiting_clients', 'instance', 'fingerprint') },
      },
      {
        title: 'Certificates by root',
        kind: 'timeseries',
        queries: { '{{fingerprint}}': sum('livery_root_certificates', 'fingerprint') },
      },
      {
        title: 'Roots end in',
        kind: 'timeseries',
        unit: 's',
        queries: {
          '{{trust_domain}} {{fingerprint}}': `min by (trust_domain, fingerprint) (livery_trust_anchor_expiration_timestamp_seconds{${CHOSEN}}) - time()`,
        },
      },
    ],
  },
  {
    title: 'Clients',
    panels: [
      {
        title: 'Streams and connections',
        kind: 'timeseries',
        queries: {
          'streams {{instance}}': sum('livery_sds_streams', 'instance'),
          'connections {{instance}}': sum('livery_sds_connections', 'instance'),
        },
      },
      {
        title: 'Pushes, ACKs and NACKs',
        kind: 'timeseries',
        unit: 'cps',
        queries: {
          pushes: rate('livery_sds_pushes'),
          ACKs: rate('livery_sds_acks'),
          NACKs: rate('livery_sds_nacks'),
        },
      },
      {
        title: 'Time to an ACK',
        kind: 'timeseries',
        unit: 's',
        about: 'A client that never answers is not in it: livery trust status names the clients that a root waits for.',
        queries: quantiles(`livery_sds_ack_lag_seconds_bucket{${CHOSEN}}`),
      },
      {
        title: 'Refused',
        kind: 'timeseries',
        unit: 'cps',
        queries: {
          'connections {{reason}}': rate('livery_sds_refused_connections', 'reason'),
          'streams {{reason}}': rate('livery_sds_refused_streams', 'reason'),
          names: rate('livery_sds_refused_names'),
        },
      },
      {
        title: 'Sockets that are not served',
        kind: 'timeseries',
        queries: {
          '{{instance}} {{state}}': `sum by (instance, state) (livery_sds_sockets{${CHOSEN},state!="listening"})`,
        },
      },
    ],
  },
  {
    title: 'The process',
    panels: [
      {
        title: 'Memory used',
        kind: 'timeseries',
        unit: 'percentunit',
        about: 'As a share of the control group limit, and of the heap limit.',
        queries: {
          '{{instance}}': `process_resident_memory_bytes{${CHOSEN}} / livery_memory_limit_bytes{${CHOSEN}}`,
          'heap of {{instance}}': `nodejs_heap_used_bytes{${CHOSEN}} / nodejs_heap_limit_bytes{${CHOSEN}}`,
        },
      },
      {
        title: 'Cores used',
        kind: 'timeseries',
        queries: {
          '{{instance}}': `rate(process_cpu_seconds_total{${CHOSEN}}[$__rate_interval]) and on (job, instance) livery_build_info`,
        },
      },
      {
        title: 'Delay of the event loop',
        kind: 'timeseries',
        unit: 's',
        queries: { '{{instance}} {{stat}}': `livery_event_loop_delay_seconds{${CHOSEN},stat=~"p99|max"}` },
      },
      {
        title: 'Versions',
        kind: 'timeseries',
        queries: { '{{version}}, keys: {{key_generator}}': sum('livery_build_info', 'version', 'key_generator') },
      },
      {
        title: 'The store: changes that are not on disk',
        kind: 'timeseries',
        queries: { '{{instance}}': `livery_store_unwritten{${CHOSEN}}` },
      },
      {
        title: 'Reloads, failed writes, lost log lines',
        kind: 'timeseries',
        unit: 'cps',
        queries: {
          'reload: {{result}}': rate('livery_config_reload', 'result'),
          'store failures': rate('livery_store_failures'),
          'output failures': rate('livery_output_failures'),
          'log lines dropped': rate('livery_log_lines_dropped'),
        },
      },
    ],
  },
]
