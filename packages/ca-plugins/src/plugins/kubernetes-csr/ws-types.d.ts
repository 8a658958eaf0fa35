/** The types of the client library name those of `ws`, which it does not bring along. Nothing here uses them. */
declare module 'ws' {
  export class WebSocket {}
  export type ClientOptions = object
}
