// A host in another language, with the TypeScript client of this repository.
//
//   node examples/agent.mjs "rm -rf build" [SOCKET]
//
// SOCKET is the daemon's agent.sock; else HOOKLATCH_RUNTIME_DIR or XDG_RUNTIME_DIR say where it is.
// Prints the decision; exits 0 if the command may run, 3 if somebody has to be asked, 2 if not.
// Whatever goes wrong is a refusal: a guard that cannot be reached has not agreed.

import { connect } from "../clients/typescript/src/index.js"; // in a project of your own: from "hooklatch"

const [command = "true", path] = process.argv.slice(2);
process.exitCode = 2; // until a decision says otherwise

const session = await connect({ path, name: "agent.mjs", host: "example" });
const decision = await session.fire("pre_tool_use", { tool_name: "Bash", tool_input: { command } });
await session.close();

console.log(JSON.stringify(decision, null, 2));
if (decision.needsAsking) process.exitCode = 3;
else if (decision.allowed) process.exitCode = 0;
