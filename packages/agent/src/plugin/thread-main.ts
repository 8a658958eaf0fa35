/** The main module of a plugin's thread: it loads the module, and answers the agent for it. */
import { parentPort, workerData } from 'node:worker_threads'
import { loadModule } from './load-module.ts'
import type { PluginModule } from './messages.ts'
import { servePlugin } from './serve-plugin.ts'

if (!parentPort) throw new TypeError('This file is the main of a thread')
const module: PluginModule = workerData
servePlugin(module.kind, loadModule(module), parentPort)
