// A host in another language: it needs JSON and a socket, nothing else.
//
//   node examples/agent.mjs "rm -rf build" [SOCKET]
//
// SOCKET is the daemon's agent.sock; else HOOKLATCH_RUNTIME_DIR or XDG_RUNTIME_DIR say where it is.
// Prints the decision; exits 0 if the command may run, 3 if somebody has to be asked, 2 if not.
// Whatever goes wrong is a refusal: a guard that cannot be reached has not agreed.

import { createConnection } from "node:net";
import { createInterface } from "node:readline";

const [command, path = socketPath()] = process.argv.slice(2);
const SILENCE = 5000; // milliseconds without a word before the daemon counts as gone

function socketPath() {
  const { HOOKLATCH_RUNTIME_DIR: named, XDG_RUNTIME_DIR: session, HOME: home } = process.env;
  if (named) return `${named}/agent.sock`;
  return session ? `${session}/hooklatch/agent.sock` : `${home}/.local/state/hooklatch/run/agent.sock`;
}

function connect(path) {
  const socket = createConnection(path);
  const waiting = new Map();
  let lastNumber = 0;

  const fail = (problem) => {
    for (const { reject } of waiting.values()) reject(problem);
    waiting.clear();
    socket.destroy();
  };
  const receive = (line) => {
    const { id, result, error } = JSON.parse(line);
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error) reject?.(new Error(error.message));
    else resolve?.(result);
  };
  createInterface({ input: socket })
    .on("line", (line) => {
      try {
        receive(line);
      } catch (problem) {
        fail(problem);
      }
    })
    .on("error", fail);
  socket.on("error", fail).on("close", () => fail(new Error("the daemon hung up")));

  const request = (method, params) =>
    new Promise((resolve, reject) => {
      if (socket.destroyed) return reject(new Error("the daemon hung up"));
      waiting.set(++lastNumber, { resolve, reject });
      socket.write(`${JSON.stringify({ jsonrpc: "2.0", id: lastNumber, method, params })}\n`);
    });

  // A slow hook is no dead daemon: after a quiet second ask for a sign of life, which any answer is.
  let lastHeard = Date.now();
  socket.on("data", () => (lastHeard = Date.now()));
  const pulse = setInterval(() => {
    if (Date.now() - lastHeard > SILENCE) fail(new Error("the daemon is silent"));
    else if (waiting.size) request("ping", {}).catch(() => {});
  }, 1000);
  const close = () => {
    clearInterval(pulse);
    socket.end();
  };
  return { request, close };
}

async function decide(command) {
  const daemon = connect(path);
  try {
    await daemon.request("hello", {
      protocol: 1,
      client: { name: "agent.mjs", version: "1" },
      session: { cwd: process.cwd(), host: "example" },
    });
    const decision = await daemon.request("fire", {
      event: "pre_tool_use",
      payload: { tool_name: "Bash", tool_input: { command } },
    });
    // Said, the session is over at once; a socket that just ends may be a crash, so the daemon keeps it for a minute.
    await daemon.request("session.close", {}).catch(() => {});
    return decision;
  } catch (problem) {
    return { verdict: "deny", cause: "no_daemon", reason: `the hook daemon did not decide: ${problem.message}` };
  } finally {
    daemon.close();
  }
}

const decision = await decide(command ?? "true");
console.log(JSON.stringify(decision, null, 2));
const EXIT_CODES = new Map([["pass", 0], ["allow", 0], ["ask", 3]]);
process.exitCode = EXIT_CODES.get(decision?.verdict) ?? 2;
