/** What can go wrong, by name. */

export class HooklatchError extends Error {
  constructor(/** @type {string} */ message) {
    super(message);
    this.name = new.target.name;
  }
}

/** There is no daemon, or it went, or it is silent. */
export class DaemonUnreachableError extends HooklatchError {}

/** The daemon said what cannot be understood. */
export class UnreadableAnswerError extends HooklatchError {}

/** A value that cannot be sent as plain JSON without becoming another one. */
export class InvalidPayloadError extends HooklatchError {}

/** The daemon refused a request: `code` and `label` are the protocol's number and name of the error. */
export class RequestFailedError extends HooklatchError {
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
