//! What the id of a user, an agent or a session must be, wherever it comes from: an argument, a setting, a claim, a
//! role, a file, a row of an attached table, a request to the gateway. There is one check, so that no way in takes
//! what another one refuses, and no two ids differ only in invisible characters.

use crate::limits::ID_BYTES;
use crate::text::unicode::is_invisible;
use thiserror::Error;

/// What to do about an id that is refused.
pub const HINT: &str = "An id has 1 to 512 bytes, no control or invisible characters, and no blanks at its beginning or end.";

/// Why an id is refused. The messages go on after the id's name, and do not quote it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum IdError {
    #[error("is empty or blank: expected 1 to {ID_BYTES} bytes")]
    Blank,
    #[error("is too long: {0} bytes, expected at most {ID_BYTES}")]
    TooLong(usize),
    /// U+0000 is one. PostgreSQL cannot store it: a text with it is another one to an index than to `=`.
    #[error("has a control character")]
    Control,
    /// The id beside it looks the same, or reads in another order than it is written.
    #[error("has an invisible character")]
    Invisible,
    #[error("begins or ends with a blank")]
    Surrounded,
}

/// Checks an id.
///
/// # Errors
/// [`IdError`].
pub fn check(id: &str) -> Result<(), IdError> {
    if id.len() > ID_BYTES {
        Err(IdError::TooLong(id.len()))
    } else if id.chars().any(char::is_control) {
        Err(IdError::Control)
    } else if id.chars().any(is_invisible) {
        Err(IdError::Invisible)
    } else if id.trim().is_empty() {
        Err(IdError::Blank)
    } else if id.trim() != id {
        Err(IdError::Surrounded)
    } else {
        Ok(())
    }
}

/// Checks an id under which a version before 0.3.0 may have stored something: what it took is still exported and
/// erased.
///
/// # Errors
/// [`IdError`].
pub fn check_kept(id: &str) -> Result<(), IdError> {
    match check(id) {
        Err(IdError::Control) if id.contains('\0') => Err(IdError::Control),
        Err(IdError::Blank) if id.is_empty() => Err(IdError::Blank),
        Err(IdError::TooLong(bytes)) => Err(IdError::TooLong(bytes)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_of_applications_are_taken() {
        for id in [
            "a",
            "*",
            "ann@example.org",
            "Ann Lee",
            "é",
            "山田",
            "a\u{202f}b",
            "می\u{200c}خواهم",
            "👩\u{200d}💻",
            &"x".repeat(512),
        ] {
            assert_eq!((check(id), check_kept(id)), (Ok(()), Ok(())), "{id:?}");
        }
        assert!(HINT.contains(&ID_BYTES.to_string()));
    }

    /// Each with whether an older version may have stored it.
    #[test]
    fn others_are_refused() {
        let long = "x".repeat(513);
        for (id, error, was_taken) in [
            ("", IdError::Blank, false),
            (" ", IdError::Blank, true),
            ("\u{a0}\u{2003}", IdError::Blank, true),
            ("zoe\0", IdError::Control, false),
            ("\0", IdError::Control, false),
            ("zoe\n", IdError::Control, true),
            ("a\tb", IdError::Control, true),
            ("\u{1b}[2Ja", IdError::Control, true),
            ("a\u{7f}", IdError::Control, true),
            ("a\u{85}b", IdError::Control, true),
            ("zoe\u{200b}", IdError::Invisible, true),
            ("\u{feff}zoe", IdError::Invisible, true),
            ("\u{202e}eoz", IdError::Invisible, true),
            ("zoe\u{e0061}", IdError::Invisible, true),
            (" zoe", IdError::Surrounded, true),
            ("zoe ", IdError::Surrounded, true),
            ("zoe\u{3000}", IdError::Surrounded, true),
            (&long, IdError::TooLong(513), false),
        ] {
            assert_eq!(check(id), Err(error), "{id:?}");
            assert_eq!(check_kept(id).is_ok(), was_taken, "{id:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_postgresql_and_people_see(id in any::<String>()) {
            if check(&id).is_ok() {
                prop_assert!(!id.is_empty() && id.len() <= ID_BYTES && id.trim() == id);
                prop_assert!(!id.contains('\0') && check_kept(&id).is_ok());
            }
        }
    }
}
