//! What a client took back of a conversation: it sends the same beginning and another text in the place of what is
//! stored, because the user changed the last message or had it answered again. That a client sends less than is
//! stored (a window over the newest messages, a summary in the place of old ones, a gap) takes nothing back.

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    User,
    Assistant,
}

/// What of the stored turns is taken back: those from this one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    Nothing,
    /// The user's last message, which another one takes the place of, and its answers.
    Message(usize),
    /// The answers to the user's last message, which is answered again.
    Answers(usize),
}

/// Compares what is stored of a session, oldest first, with what a client sends, whose last message is the user's.
///
/// Only the last message that was answered can be taken back. One that waits for its answer may be another request's
/// that is under way, and one that others came after, of a request that knows less than is stored.
pub fn taken_back<T: PartialEq>(stored: &[(Speaker, T)], sent: &[(Speaker, T)]) -> TakenBack {
    let Some(((Speaker::User, message), before)) = sent.split_last() else {
        return TakenBack::Nothing;
    };
    let Some((beginning, [(Speaker::User, said), answers @ ..])) =
        stored.split_at_checked(before.len())
    else {
        return TakenBack::Nothing;
    };
    let is_answered =
        !answers.is_empty() && answers.iter().all(|(speaker, _)| *speaker == Speaker::Assistant);
    if !is_answered || beginning != before {
        TakenBack::Nothing
    } else if said == message {
        TakenBack::Answers(before.len() + 1)
    } else if before.is_empty() {
        // Nothing says that it is the same conversation.
        TakenBack::Nothing
    } else {
        TakenBack::Message(before.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, the user's with a small letter and the assistant's with a capital one.
    fn of(stored: &str, sent: &str) -> TakenBack {
        let turns = |texts: &str| {
            let turn = |text: &str| {
                let is_user = text.starts_with(char::is_lowercase);
                let speaker = if is_user { Speaker::User } else { Speaker::Assistant };
                (speaker, text.to_owned())
            };
            texts.split_whitespace().map(turn).collect::<Vec<_>>()
        };
        taken_back(&turns(stored), &turns(sent))
    }

    #[test]
    fn the_last_message_is_changed() {
        assert_eq!(of("a A b B", "a A c"), TakenBack::Message(2));
        assert_eq!(of("a A b B C", "a A c"), TakenBack::Message(2), "several answers");
        assert_eq!(of("a b B", "a c"), TakenBack::Message(1), "an answer that failed");
    }

    #[test]
    fn the_last_message_is_answered_again() {
        assert_eq!(of("a A b B", "a A b"), TakenBack::Answers(3));
        assert_eq!(of("a A", "a"), TakenBack::Answers(1));
        assert_eq!(of("a A B", "a"), TakenBack::Answers(1));
    }

    #[test]
    fn less_than_is_stored_takes_nothing_back() {
        for (what, sent) in [
            ("a window", "b B c"),
            ("a window of one", "c"),
            ("a window of the same length", "b A c"),
            ("a summary", "s c"),
            ("a summary by the assistant", "S b B c"),
            ("a gap", "a B c"),
            ("a gap of one", "a A B c"),
            ("a shorter beginning", "a"),
            ("a shorter beginning with another end", "a c"),
            ("the next message", "a A b B c"),
            ("a text that the client changed", "a X c"),
            ("an answer that the client changed", "a A b X c"),
            ("more than is stored", "a A b B c C d"),
            ("nothing", ""),
            ("an answer", "a A b B"),
        ] {
            assert_eq!(of("a A b B", sent), TakenBack::Nothing, "{what}");
        }
    }

    #[test]
    fn requests_at_the_same_time_take_nothing_back() {
        assert_eq!(of("a A b", "a A c"), TakenBack::Nothing, "the other one has no answer yet");
        assert_eq!(of("a A b", "a A b"), TakenBack::Nothing);
        assert_eq!(of("a A b B c C", "a A x"), TakenBack::Nothing, "it knows less");
        assert_eq!(of("a A b B c C", "a A b"), TakenBack::Nothing);
        assert_eq!(of("a A b B c", "a A b"), TakenBack::Nothing);
        assert_eq!(of("", "a"), TakenBack::Nothing);
        assert_eq!(of("a A", "b"), TakenBack::Nothing, "another conversation in the session");
    }
}
