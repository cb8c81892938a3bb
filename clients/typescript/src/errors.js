"use strict";

/** What can go wrong, by name. */

class HooklatchError extends Error {
  constructor(/** @type {string} */ message) {
    super(message);
    this.name = new.target.name;
  }
}

/** There is no daemon, or it went, or it is silent. */
class DaemonUnreachableError extends HooklatchError {}

/** The caller did not wait for the answer. */
class AbandonedError extends HooklatchError {}

/** The daemon said what cannot be understood. */
class UnreadableAnswerError extends HooklatchError {}

/** A value that cannot be sent as plain JSON without becoming another one. */
class InvalidPayloadError extends HooklatchError {}

/** The daemon refused a request: `code` and `label` are the protocol's number and name of the error. */
class RequestFailedError extends HooklatchError {
  /**
   * @param {number} code
   * @param {string} label
   * @param {string} message
   */
  constructor(code, label, message) {
    super(label ? `the daemon answered ${label}: ${message}` : message);
    this.code = code;
    this.label = label;
  }
}

module.exports = {
  AbandonedError,
  DaemonUnreachableError,
  HooklatchError,
  InvalidPayloadError,
  RequestFailedError,
  UnreadableAnswerError,
};
