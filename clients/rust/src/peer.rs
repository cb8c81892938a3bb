//! Connects to a daemon of this user, of root, or of the user that was named: the only place here that connects. The
//! kernel says who listens before anything is sent.
//!
//! The standard library has no limit for a connect to a Unix socket, whose backlog may be full, no way to ask who
//! listens, and no send that does not wait on a socket that is read by waiting: so the C library's are called.

use std::io::{Error, ErrorKind, Result};
use std::mem::size_of;
use std::os::raw::{c_int, c_ushort, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2); // for a place in a full backlog
const ROOT: u32 = 0;

// Of Linux. Where an architecture has other numbers, the kernel refuses them, or answers with no such struct.
const AF_UNIX: c_int = 1;
const SOCK_STREAM: c_int = 1;
const SOCK_CLOEXEC: c_int = 0o2000000;
const SOL_SOCKET: c_int = 1;
const SO_PEERCRED: c_int = 17;
const MSG_DONTWAIT: c_int = 0x40;
const MSG_NOSIGNAL: c_int = 0x4000;

#[repr(C)]
struct Address {
    family: c_ushort,
    path: [u8; 108],
}

#[repr(C)]
#[derive(Default)]
struct Credentials {
    pid: i32,
    uid: u32,
    gid: u32,
}

extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(fd: c_int, address: *const Address, size: u32) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut Credentials, size: *mut u32) -> c_int;
    fn geteuid() -> u32;
    fn send(fd: c_int, data: *const c_void, size: usize, flags: c_int) -> isize;
}

/// Return a stream that is connected; `daemon_uid` is whose daemon is taken beside one's own and root's.
pub fn connected(path: &Path, daemon_uid: Option<u32>) -> Result<UnixStream> {
    if !cfg!(target_os = "linux") {
        return Err(Error::new(ErrorKind::Other, "only Linux can be asked who listens"));
    }
    let mut address = Address { family: AF_UNIX as c_ushort, path: [0; 108] };
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() >= address.path.len() || bytes.contains(&0) {
        return Err(Error::new(ErrorKind::InvalidInput, "no socket can have this path"));
    }
    for (place, byte) in address.path.iter_mut().zip(bytes) {
        *place = *byte;
    }
    // SAFETY: the descriptor is new, and nobody else's.
    let stream = unsafe {
        match socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) {
            -1 => return Err(Error::last_os_error()),
            fd => UnixStream::from_raw_fd(fd),
        }
    };
    stream.set_write_timeout(Some(PATIENCE))?; // socket(7): of connect too
                                               // SAFETY: the address is whole, of the size that is given, and its path ends with a zero.
    while unsafe { connect(stream.as_raw_fd(), &address, size_of::<Address>() as u32) } < 0 {
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    stream.set_write_timeout(None)?;
    check(&stream, daemon_uid).map(|()| stream)
}

fn check(stream: &UnixStream, daemon_uid: Option<u32>) -> Result<()> {
    let mut peer = Credentials::default();
    let mut size = size_of::<Credentials>() as u32;
    // SAFETY: the kernel writes no more than the size that it is given.
    if unsafe { getsockopt(stream.as_raw_fd(), SOL_SOCKET, SO_PEERCRED, &mut peer, &mut size) } < 0 {
        return Err(Error::last_os_error());
    }
    if size as usize != size_of::<Credentials>() {
        return Err(Error::new(ErrorKind::Other, "the kernel does not tell who listens there"));
    }
    // SAFETY: it takes nothing, and cannot fail.
    if peer.uid == ROOT || peer.uid == unsafe { geteuid() } || Some(peer.uid) == daemon_uid {
        return Ok(());
    }
    Err(Error::new(ErrorKind::PermissionDenied, format!("another user listens there: {}", peer.uid)))
}

/// Send what the daemon takes at once; return how much that is.
pub fn send_now(stream: &UnixStream, data: &[u8]) -> Result<usize> {
    // SAFETY: the data outlives the call.
    match unsafe { send(stream.as_raw_fd(), data.as_ptr().cast(), data.len(), MSG_DONTWAIT | MSG_NOSIGNAL) } {
        -1 => match Error::last_os_error() {
            error if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            error => Err(error),
        },
        sent => Ok(sent as usize),
    }
}
