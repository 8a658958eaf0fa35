/** npm packages that a single plugin needs and loads: they are large, and most agents do without. */

/** The module that `loading` resolves with. Rejects with an `Error` that names an absent package and the command that installs it. */
export async function optionalPackage<T>(plugin: string, name: string, loading: Promise<T>): Promise<T> {
  try {
    return await loading
  } catch (error) {
    if (!isMissing(error, name)) throw error
    throw new Error(
      `Cannot load the ${plugin} plugin: the package ${name} is not installed. Install it beside Livery: npm install ${name}`,
      { cause: error },
    )
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return /^(ERR_)?MODULE_NOT_FOUND$/.test(String(error.code)) && error.message.includes(`'${name}'`)
}
