// A plain plugin of OpenCode, as a person writes one: it misbehaves as the command that it is asked about says.
export const Plain = async () => ({
  "tool.execute.before": async (input, output) => {
    const row = /(\w+)\.ran/.exec(output.args.command ?? "")?.[1]
    switch (row) {
      case "deny":
      case "one_of_two":
      case "subagent":
        throw new Error(`refused-${row}`)
      case "rewrite":
        output.args.command = output.args.command.replace("rewrite.ran", "rewritten.ran")
        return
      case "raise":
        throw new TypeError("refused-raise")
      case "rubbish":
        return "refused-rubbish: this is no decision"
      case "hang":
        return new Promise(() => {})
      case "killed":
        process.kill(process.pid, "SIGKILL")
    }
  },
})
