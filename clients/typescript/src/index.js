"use strict";

/** A client of the hooklatch daemon. No answer is a deny: `fire` never throws, and never allows a gate by itself. */

const { Decision } = require("./decisions.js");
const { DaemonUnreachableError, HooklatchError, RequestFailedError } = require("./errors.js");
const { connect, Session } = require("./session.js");
const { refusesWhenUnknown } = require("./table.js");

module.exports = {
  connect,
  DaemonUnreachableError,
  Decision,
  HooklatchError,
  refusesWhenUnknown,
  RequestFailedError,
  Session,
};
