//! What can go wrong, by name.

use std::fmt;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// There is no daemon, or it went, or it is silent.
    Unreachable(String),
    /// The daemon said what cannot be understood.
    Unreadable(String),
    /// A value that cannot be sent as JSON.
    InvalidPayload(String),
    /// The daemon refused a request, by the protocol's name of the error.
    Refused {
        /// The name, such as `invalid_params` or `not_found`.
        name: String,
        /// What is wrong, for a person.
        message: String,
    },
}

impl Error {
    /// The cause that a decision names where this is why there is none.
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            Error::Unreachable(_) => "no_daemon",
            Error::InvalidPayload(_) => "payload",
            Error::Refused { name, .. } if name == "overload" => "overload",
            _ => "protocol",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreachable(text) | Error::Unreadable(text) | Error::InvalidPayload(text) => f.write_str(text),
            Error::Refused { name, message } if name.is_empty() => write!(f, "the daemon refused: {message}"),
            Error::Refused { name, message } => write!(f, "the daemon answered {name}: {message}"),
        }
    }
}

impl std::error::Error for Error {}
