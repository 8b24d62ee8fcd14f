//! Whose fault a failure is that can be the endpoint's or the request's own: a 403 may be a wrong key or a text
//! that a filter flags, a 500 a server that is down or a text that it chokes on.
//!
//! It is the request's own if the endpoint has answered another request since, otherwise an outage. Where no
//! other request comes, a harmless one is sent to find out.

/// What is sent to find out, as a message or as a text to embed: nothing that an endpoint would refuse.
pub const HARMLESS: &str = "Say yes.";

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The endpoint answers others. It counts against the job that asked, and no other one waits.
    Request,
    /// Nothing gets through. Nothing is counted, and all wait.
    Endpoint,
}

/// What an endpoint's answers have shown so far. They are counted, so that "since" needs no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Requests that it answered, tests among them.
    pub answered: u64,
    /// Tests that failed.
    pub failed_tests: u64,
}

impl Evidence {
    /// What became known since then tells; `None` where that is nothing.
    #[must_use]
    pub fn since(self, then: Self) -> Option<Blame> {
        if self.answered > then.answered {
            Some(Blame::Request)
        } else if self.failed_tests > then.failed_tests {
            Some(Blame::Endpoint)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_since_tells() {
        let seen = |answered, failed_tests| Evidence { answered, failed_tests };
        let then = seen(7, 2);
        assert_eq!(then.since(then), None);
        assert_eq!(seen(8, 2).since(then), Some(Blame::Request));
        assert_eq!(seen(7, 3).since(then), Some(Blame::Endpoint));
        // Some requests get through: those that do not are at fault themselves.
        assert_eq!(seen(8, 3).since(then), Some(Blame::Request));
    }
}
