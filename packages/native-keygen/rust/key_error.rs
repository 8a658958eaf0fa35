//! Why a key could not be made.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyError {
    /// The caller's mistake.
    Input(String),
    Cancelled,
    /// The step that the library refused; it gives no reason.
    Library(&'static str),
    Panicked,
    /// Why the system refuses a thread.
    NoThread(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(reason) => formatter.write_str(reason),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Library(step) => write!(formatter, "aws-lc could not {step}"),
            Self::NoThread(reason) => {
                write!(formatter, "cannot start a thread of the addon: {reason}")
            }
            Self::Panicked => formatter.write_str("the addon panicked: this is a bug"),
        }
    }
}

impl std::error::Error for KeyError {}
