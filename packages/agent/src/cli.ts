/** The command line: which command with which options, and the exit code. */
import { printable } from '@livery/core/plugin'
import { CommanderError, Option } from 'commander'
import type { CAOptions } from './commands/ca.ts'
import type { CARootAction } from './commands/ca-root.ts'
import type { CATestOptions } from './commands/ca-test.ts'
import { EXIT, exitCodeOf } from './commands/exit-code.ts'
import type { GlobalOptions, Terminal } from './commands/terminal.ts'
import type { WaitCommandOptions } from './commands/wait.ts'
import type { ConfigSources } from './config/layers.ts'
import { VERSION } from './life/version.ts'
import { addOperatorCommands } from './operator-commands.ts'
import { plainAddress } from './schema/admin-address.ts'
import { ConfigError, describeConfigError } from './schema/config-error.ts'
import { DocumentedCommand } from './usage/documented-command.ts'

/** How a command ends, unless its help says otherwise. */
export const EXIT_CODES = [
  [EXIT.ok, 'ok'],
  [EXIT.failed, 'failed'],
  [EXIT.usage, 'wrong usage'],
  [EXIT.config, 'wrong configuration'],
] as const

export const PRECEDENCE =
  "Precedence: flag, environment (Istio's names, such as CA_ADDR), file, default; check-config shows the outcome."

const AFTER_HELP = `
Exit codes: ${EXIT_CODES.map(([code, meaning]) => `${code} ${meaning}`).join(', ')}.
${PRECEDENCE}`

/** Runs one command line (without node and script) and resolves with the exit code. */
export async function runCommandLine(args: readonly string[], outside: Terminal): Promise<number> {
  const terminal = printingOnly(outside)
  let exitCode: number = EXIT.ok
  const program = createProgram(terminal, code => {
    exitCode = code
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    terminal.err(`livery: ${describe(error)}\n`)
    return exitCodeOf(error)
  }
}

/** The same terminal, but texts only print: results and errors contain names, and reasons from CAs, peers and files. */
function printingOnly(terminal: Terminal): Terminal {
  return {
    ...terminal,
    out: text => terminal.out(printable(text)),
    err: text => terminal.err(printable(text)),
  }
}

/** The commands with their options; an action gives `finish` the exit code. */
export function createProgram(terminal: Terminal, finish: (exitCode: number) => void): DocumentedCommand {
  const program = new DocumentedCommand('livery')
    .description('Holds the X.509 identity of every workload on this node and serves it to Envoy over SDS.')
    .version(VERSION, '-V, --version', 'print the version')
    .option('-c, --config <file>', 'configuration file (default: $LIVERY_CONFIG, else livery.yaml here)')
    .option(
      '--admin <address>',
      'admin endpoint, host:port, http://host:port or unix:/path (default: as the configuration says)',
    )
    .option('--json', 'results, and logs of run and ca, as JSON')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', AFTER_HELP)
    .configureOutput({ writeOut: text => terminal.out(text), writeErr: text => terminal.err(text) })
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(livery doctor shows what is wrong, livery certs what is held; see livery --help)')
    .exitOverride()
  const globals = (): GlobalOptions => program.opts<GlobalOptions>()

  program
    .command('run')
    .description('run the agent')
    .option('--takeover', 'take over the store and the sockets from the agent that has them, which drains and ends')
    .withExamples([
      ['livery run', 'with livery.yaml here'],
      ['livery run --config node.yaml --takeover', 'an upgrade without a gap'],
    ])
    .action(async ({ takeover }: { readonly takeover?: boolean }) => {
      // Loaded only here: gRPC would double the time that the other commands take to start.
      const { runAgent } = await import('./commands/run.ts')
      finish(await runAgent({ ...sourcesOf(globals(), terminal), takeover }, globals()))
    })
  program
    .command('check-config')
    .description(
      'check the configuration, and print each value with its origin; doctor checks folders, tokens and the CA',
    )
    .withExamples([['CA_ADDR=istiod.istio-system.svc:15012 livery check-config', 'what a variable changes']])
    .action(async () => {
      const { checkConfig } = await import('./commands/check-config.ts')
      await checkConfig(sourcesOf(globals(), terminal), globals(), terminal)
    })
  addOperatorCommands(program, {
    terminal,
    globals,
    sources: () => sourcesOf(globals(), terminal),
    finish,
  })
  addWait(program, async options => {
    const { waitUntilServed } = await import('./commands/wait.ts')
    finish(await waitUntilServed(options, globals(), terminal))
  })
  const ca = addCA(program, async options => {
    const { serveCA } = await import('./commands/ca.ts')
    finish(await serveCA(options, globals(), terminal))
  })
  addCATest(ca, async (plugin, options) => {
    const { testCA } = await import('./commands/ca-test.ts')
    finish(
      await testCA(
        options,
        { ...sourcesOf(globals(), terminal), ...(plugin !== undefined && { plugin }) },
        globals(),
        terminal,
      ),
    )
  })
  addCARoot(ca, async (action, dir, id) => {
    const { changeCARoots } = await import('./commands/ca-root.ts')
    finish(await changeCARoots(action, id, dir, globals(), terminal))
  })
  return program
}

function addWait(program: DocumentedCommand, action: (options: WaitCommandOptions) => Promise<void>): void {
  program
    .command('wait')
    .description('wait until a socket serves: for an init container, or a script that starts what needs it')
    .requiredOption('--socket <path>', 'a socket of the agent')
    .option('--name <name>', 'also wait until this secret is served to this user: default, ROOTCA, a SPIFFE ID')
    .option('--timeout <duration>', 'how long to wait before it fails', '60s')
    .withExamples(
      [
        ['livery wait --socket /run/livery/sds.sock', 'until it answers'],
        ['livery wait --socket ./socket --name default --timeout 30s', 'until this user gets its certificate'],
      ],
      '0 it serves, 1 it did not in time, 2 wrong usage',
    )
    .action(action)
}

function addCARoot(
  ca: DocumentedCommand,
  action: (action: CARootAction, dir: string, id?: string) => Promise<void>,
): void {
  const root = ca
    .command('root')
    .description('list the roots of a running "livery ca", or rotate them: add, switch, remove')
    .withExamples([
      ['livery ca root add --dir ca', 'first, for clients to learn it'],
      ['livery ca root switch 1f2e3d4c --dir ca', 'once each agent has it'],
    ])
    // The options of `ca` belong to the server, except its folder.
    .configureHelp({
      showGlobalOptions: true,
      visibleGlobalOptions: () => [...ca.options.filter(({ long }) => long === '--dir'), ...(ca.parent?.options ?? [])],
    })
  const dir = (): string => ca.opts<CAOptions>().dir
  root
    .command('list', { isDefault: true })
    .description('list the roots')
    .action(() => action('list', dir()))
  root
    .command('add')
    .description('add a root that clients can learn to trust; no certificate is under it yet')
    .action(() => action('add', dir()))
  root
    .command('switch')
    .argument('<fingerprint>', "the first digits of the root's fingerprint")
    .description('sign under this root from now on')
    .action((id: string) => action('switch', dir(), id))
  root
    .command('remove')
    .argument('<fingerprint>', "the first digits of the root's fingerprint")
    .description('remove a root that no longer signs')
    .action((id: string) => action('remove', dir(), id))
}

function addCATest(
  ca: DocumentedCommand,
  action: (plugin: string | undefined, options: CATestOptions) => Promise<void>,
): void {
  ca.command('test')
    // The options of `ca` belong to the server.
    .configureHelp({
      showGlobalOptions: true,
      visibleGlobalOptions: test => [...(test.parent?.parent?.options ?? [])],
    })
    .argument('[plugin]', 'a built-in name, or a module: ./my-ca.mjs, @acme/ca (default: the one of the configuration)')
    .summary('prove a CA plugin at its live CA')
    .description(
      'Prove a CA plugin at its live CA: loads it with the keys of "ca" in the configuration, has about 100 certificates issued, and reports case by case.',
    )
    .option('--identity <id>', 'what to ask for (default: the first of the configuration)')
    .option('--parallel <count>', 'how many requests to make at once; fewer for a CA with a quota', '64')
    .withExamples(
      [
        ['livery ca test', 'the CA of livery.yaml here'],
        ['livery ca test ./my-ca.mjs --identity spiffe://cluster.local/ns/default/sa/web', 'a plugin of yours'],
      ],
      '0 all passed, 1 a case failed, 2 wrong usage, 78 wrong configuration',
    )
    .action(action)
}

function addCA(program: DocumentedCommand, action: (options: CAOptions) => Promise<void>): DocumentedCommand {
  return program
    .command('ca')
    .description("serve the embedded CA to other agents as Istio's certificate service (not for production)")
    .option('--listen <address>', 'host:port with TLS', '127.0.0.1:15012')
    .option('--dir <directory>', 'where the CA is kept; root.pem in it is for the clients', '.livery/ca')
    .option('--trust-domain <domain>', 'the one it issues for (default: $TRUST_DOMAIN, else cluster.local)')
    .option('--tokens <file>', 'YAML list of { token, identity, impersonates: [...] }')
    .option(
      '--token-review <kubeconfig>',
      'have an API server review the tokens of service accounts: a kubeconfig, or in-cluster',
    )
    .option('--audience <audience>', 'audience of these tokens', 'istio-ca')
    .addOption(new Option('--server-name <host...>', 'further DNS names and addresses of its TLS certificate'))
    .option('--metrics <address>', "host:port for GET /metrics: istiod's counters, by their names (default: none)")
    .withExamples([
      ['livery ca --tokens tokens.yaml --dir ca', 'on loopback'],
      ['livery ca --tokens tokens.yaml --listen 0.0.0.0:15012 --server-name ca.example', 'for other machines'],
    ])
    .action(action)
}

function describe(error: unknown): string {
  if (error instanceof ConfigError) return describeConfigError(error)
  return error instanceof Error ? error.message : String(error)
}

function sourcesOf({ config, admin }: GlobalOptions, terminal: Terminal): ConfigSources {
  return {
    file: config,
    admin: admin === undefined ? undefined : plainAddress(admin),
    environment: terminal.environment,
    workingDirectory: terminal.workingDirectory,
    terminal: terminal.terminal,
  }
}
