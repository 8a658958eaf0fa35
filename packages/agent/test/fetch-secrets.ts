/** Fetches secrets as a separate user: arguments are the socket and the names, output the names of the secrets received. */
import { fetchSecrets } from './sds-client.ts'

const [socket = '', ...names] = process.argv.slice(2)
try {
  const secrets = await fetchSecrets(socket, names)
  console.log(secrets.map(({ name, privateKey }) => (privateKey ? `${name} with key` : name)).join(', '))
} catch (error) {
  console.log(`refused: ${error instanceof Error ? error.message : String(error)}`)
}
