/** The same client for `import`. */

import hooklatch from "./index.js";

export const {
  connect,
  DaemonUnreachableError,
  Decision,
  HooklatchError,
  refusesWhenUnknown,
  RequestFailedError,
  Session,
} = hooklatch;
