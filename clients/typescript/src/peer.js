"use strict";

/**
 * Connects to a daemon of this user, of root, or of the user that was named: the only place here that connects.
 *
 * Node cannot ask the kernel who listens, so nobody else must be able to have put the socket there: its owner and mode
 * are checked, and those of each folder above it. A folder of root with the sticky bit, such as /tmp, is as good as one
 * that others cannot write to: nobody replaces in it what is not theirs.
 */

const { lstatSync, realpathSync } = require("node:fs");
const { createConnection } = require("node:net");
const { dirname } = require("node:path");

const MAX_PATH = 107; // bytes (unix(7)); older versions of Node cut a longer one off without a word
const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;
const ROOT = 0;

/**
 * @param {string} path
 * @param {number | undefined} daemonUid
 * @returns {Promise<import("node:net").Socket>}
 */
function connected(path, daemonUid) {
  return new Promise((resolve, reject) => {
    const socket = createConnection(checked(path, daemonUid), () => {
      socket.off("error", reject);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}

/**
 * Return where the socket really is; throws if another user may have put it there.
 *
 * @param {string} path
 * @param {number | undefined} daemonUid
 */
function checked(path, daemonUid) {
  const place = realpathSync(path);
  if (Buffer.byteLength(place) > MAX_PATH) throw new Error(`${place} is too long for a socket`);
  if (!lstatSync(place).isSocket()) throw new Error("it is no socket");
  for (let at = place; ; at = dirname(at)) {
    const { uid, mode } = lstatSync(at);
    if (![ROOT, process.geteuid?.(), daemonUid].includes(uid)) throw new Error(`another user owns ${at}: ${uid}`);
    const isSticky = at !== place && uid === ROOT && (mode & STICKY) !== 0;
    if (mode & WRITABLE_BY_OTHERS && !isSticky) throw new Error(`others may write to ${at}; chmod go-w ${at}`);
    if (at === dirname(at)) return place;
  }
}

module.exports = { connected };
