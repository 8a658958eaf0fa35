/** The public names of `@livery/ca-plugins/kubernetes-api`: calls to an API server by the service account of the pod. */

export { ApiConnection, type ApiRequest, type Caller } from './api-connection.ts'
export { AnswerTooLarge, type ApiCall } from './api-errors.ts'
export { apiRetryMs } from './api-retry.ts'
export { ObjectWatcher, type WatchState } from './object-watcher.ts'
export { ObjectsApi } from './objects-api.ts'
export { PodLogin } from './pod-login.ts'
export { readWatchEvents, type WatchEvent } from './watch-events.ts'
