//! What the SQLSTATEs mean that the gateway tells apart: the only place where they stand. Each way in says the cause in
//! the words of its clients.

/// Why the database refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A text or a number is invalid, or over its limit.
    Invalid,
    /// A text is no value of its type: a time, a number, an id.
    Unreadable,
    /// A character that no text in the database can have.
    Character,
    /// Any other value that the database does not take, or one that is too large.
    Argument,
    /// A row that may not be there.
    Constraint,
    /// Something has this id or this name.
    Exists,
    /// Nothing has this id or this name.
    Unknown,
    /// It is of a kind with which this cannot be done.
    WrongKind,
    /// It was replaced or forgotten, or what this needs is not configured.
    WrongState,
    /// The user's quota is used up.
    OverQuota,
    /// The role lacks a level or a privilege.
    NotPermitted,
    /// The server is a standby, or the transaction may only read.
    ReadOnly,
    /// Another transaction changed the same.
    Concurrent,
    /// What the database needs from outside failed: a model, a file.
    System,
    /// The statement was cancelled, which `statement_timeout` ends in.
    Cancelled,
    /// The function is not there: perhaps the extension is not.
    NoFunction,
    /// Anything else.
    Other,
}

impl Cause {
    pub fn of(code: &str) -> Self {
        match code {
            "22023" => Self::Invalid,
            "22007" | "22008" | "22P02" => Self::Unreadable,
            "22021" => Self::Character,
            "23505" | "42710" => Self::Exists,
            "42704" => Self::Unknown,
            "42809" => Self::WrongKind,
            "55000" => Self::WrongState,
            "53400" => Self::OverQuota,
            "42501" => Self::NotPermitted,
            "25006" => Self::ReadOnly,
            "40001" | "40P01" => Self::Concurrent,
            "58000" => Self::System,
            "57014" => Self::Cancelled,
            "42883" => Self::NoFunction,
            _ if code.starts_with("22") || code.starts_with("54") => Self::Argument,
            _ if code.starts_with("23") => Self::Constraint,
            _ => Self::Other,
        }
    }

    /// Whether a value is wrong.
    pub fn is_an_argument(self) -> bool {
        matches!(self, Self::Invalid | Self::Unreadable | Self::Character | Self::Argument)
    }

    /// Whether what was sent is refused for what it is. Any other refusal would be the same for all.
    pub fn is_about_what_was_sent(self) -> bool {
        self.is_an_argument() || matches!(self, Self::Constraint | Self::Exists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_without_a_meaning_of_its_own_has_that_of_its_class() {
        for (code, cause) in [
            ("22023", Cause::Invalid),
            ("22003", Cause::Argument),
            ("54000", Cause::Argument),
            ("23505", Cause::Exists),
            ("23502", Cause::Constraint),
            ("XX000", Cause::Other),
        ] {
            assert_eq!(Cause::of(code), cause, "{code}");
            assert_eq!(cause.is_about_what_was_sent(), cause != Cause::Other, "{code}");
            assert_eq!(cause.is_an_argument(), code < "23" || code > "24" && code < "X", "{code}");
        }
    }
}
