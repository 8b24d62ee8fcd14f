//! Server-sent events as they pass by: cut out of a stream of bytes, looked into, and handed on byte for
//! byte. Only the one that memories are added to is changed.

use crate::chat::splice::{self, Edit, Object};
use serde::de::IgnoredAny;

/// An event that grows beyond this is handed on without being looked into.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub struct Splitter {
    bytes: Vec<u8>,
    /// Where the next event begins. What is before it went on, and is forgotten when more comes in: bytes that
    /// wait are not moved for each event.
    start: usize,
    /// No event ends before this: bytes are looked at once.
    looked_at: usize,
}

impl Splitter {
    /// Takes what came in.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.looked_at = self.looked_at.saturating_sub(self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes wait for the end of their event.
    pub fn held(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The next event that is complete, with the blank line that ends it.
    pub fn next_event(&mut self) -> Option<Event> {
        match end_of_event(&self.bytes, self.looked_at) {
            Some(end) => {
                let event = self.bytes.get(self.start..end).unwrap_or_default().to_vec();
                (self.start, self.looked_at) = (end, end);
                Some(Event(event))
            }
            None if self.held() > MAX_EVENT_BYTES => Some(Event(self.rest())),
            None => {
                // A line end of two bytes may have come half.
                self.looked_at = self.bytes.len().saturating_sub(3).max(self.start);
                None
            }
        }
    }

    /// What came after the last complete event.
    pub fn rest(&mut self) -> Vec<u8> {
        let rest = self.waiting().to_vec();
        *self = Self::default();
        rest
    }
}

/// One event as it came, with the blank line after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event(pub Vec<u8>);

impl Event {
    /// What its lines `data:` say; `None` when it has none, or is no text.
    pub fn data(&self) -> Option<String> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let lines: Vec<&str> = text
            .split(['\n', '\r'])
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| data.strip_prefix(' ').unwrap_or(data))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The event with a member added to the JSON object that it carries, or to the object `inside` that one
    /// under this name.
    ///
    /// # Errors
    /// The event as it is, where that cannot be done.
    pub fn with_member(self, inside: Option<&str>, name: &str, value: &str) -> Result<Self, Self> {
        let added = std::str::from_utf8(&self.0).ok().and_then(|text| {
            let mut data = text.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data:"));
            // A document in several lines has line ends in it that are not its own.
            let document = data.next().filter(|_| data.next().is_none())?;
            let object = match inside {
                Some(inside) => Object::read(document, document)?.get(inside)?.value,
                // What is no JSON goes on as it came.
                None => serde_json::from_str::<IgnoredAny>(document).ok().map(|_| document)?,
            };
            let Edit { at, text: member } = splice::added_member(object, name, value)?;
            let start = splice::place(text, object).start;
            let edit = Edit { at: start + at.start..start + at.end, text: member };
            Some(splice::edited(text, vec![edit]).into_bytes())
        });
        added.map(Self).ok_or(self)
    }
}

/// An event of a kind, if it has one, with this data, which has no line ends.
pub fn event(kind: Option<&str>, data: &str) -> Event {
    let kind = kind.map(|kind| format!("event: {kind}\n")).unwrap_or_default();
    Event(format!("{kind}data: {data}\n\n").into_bytes())
}

/// Where the first event ends, after its blank line. Lines end with \n, \r\n or \r.
fn end_of_event(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let line_end = after_line_end(bytes, at + found)?;
        match bytes.get(line_end)? {
            b'\n' | b'\r' => return after_line_end(bytes, line_end),
            _ => at = line_end,
        }
    }
    None
}

/// Where the line end that begins here ends; `None` while only its first half may have come.
fn after_line_end(bytes: &[u8], at: usize) -> Option<usize> {
    match (bytes.get(at)?, bytes.get(at + 1)) {
        (b'\r', Some(b'\n')) => Some(at + 2),
        (b'\r', None) => None,
        _ => Some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> (Vec<String>, String) {
        let mut splitter = Splitter::default();
        let mut events = Vec::new();
        for chunk in chunks {
            splitter.feed(chunk);
            while let Some(event) = splitter.next_event() {
                events.push(String::from_utf8(event.0).unwrap());
            }
        }
        (events, String::from_utf8(splitter.rest()).unwrap())
    }

    #[test]
    fn events_end_with_a_blank_line_of_any_kind() {
        let stream = "data: 1\n\n: note\r\ndata: 2\r\n\r\nevent: x\ndata: 3\r\rdata: 4\n\nda";
        let (events, rest) = split(&[stream.as_bytes()]);
        assert_eq!(
            events,
            ["data: 1\n\n", ": note\r\ndata: 2\r\n\r\n", "event: x\ndata: 3\r\r", "data: 4\n\n"]
        );
        assert_eq!(rest, "da");
    }

    /// Work that is not done: were what waits moved for each event, a stream of short ones would take time
    /// that grows with the square of its length.
    #[test]
    fn bytes_that_wait_are_not_moved_for_each_event() {
        let mut splitter = Splitter::default();
        splitter.feed(&b"\n".repeat(4_096));
        let mut place = splitter.waiting().as_ptr() as usize;
        let mut count = 0;
        while let Some(event) = splitter.next_event() {
            place += event.0.len();
            assert_eq!(splitter.waiting().as_ptr() as usize, place, "event {count}");
            count += 1;
        }
        assert_eq!((count, splitter.held()), (2_048, 0));
        // What went on does not stay.
        splitter.feed(b"data: 1\n");
        assert_eq!((splitter.bytes.len(), splitter.held()), (8, 8));
    }

    #[test]
    fn data_is_what_the_lines_say() {
        let data = |text: &str| Event(text.as_bytes().to_vec()).data();
        assert_eq!(data("event: x\ndata: {\"a\":1}\n\n").as_deref(), Some("{\"a\":1}"));
        assert_eq!(data("data:a\r\ndata: b\r\n\r\n").as_deref(), Some("a\nb"));
        assert_eq!(data(": note\n\n"), None);
    }

    #[test]
    fn a_member_is_added_to_the_object_of_an_event() {
        let within = |inside: Option<&str>, text: &str| {
            let added = Event(text.as_bytes().to_vec()).with_member(inside, "h", "[1]");
            let is_added = added.is_ok();
            let event = added.unwrap_or_else(|event| event);
            assert_eq!(event.0 == text.as_bytes(), !is_added);
            String::from_utf8(event.0).unwrap()
        };
        let with = |text: &str| within(None, text);
        assert_eq!(with("data: {\"a\":1.0}\n\n"), "data: {\"a\":1.0,\"h\":[1]}\n\n");
        assert_eq!(with("id: 1\ndata: {}\r\n\r\n"), "id: 1\ndata: {\"h\":[1]}\r\n\r\n");
        let beyond = with("data: {\"n\":2E99999}\n\n");
        assert_eq!(beyond, "data: {\"n\":2E99999,\"h\":[1]}\n\n");
        assert_eq!(with("data: {}\nid: 1\n\n"), "data: {\"h\":[1]}\nid: 1\n\n");
        for other in [
            "data: [DONE]\n\n",
            ": {}\n\n",
            "data: {\nid: }\n\n",
            "data: {oops}\n\n",
            "data: {\"a\":1} and }\n\n",
            "data: {\ndata: }\n\n",
        ] {
            assert_eq!(with(other), other);
        }
        let created = "event: e\ndata: {\"r\": { \"id\":1.0 } , \"n\":1}\n\n";
        let expected = "event: e\ndata: {\"r\": { \"id\":1.0 ,\"h\":[1]} , \"n\":1}\n\n";
        assert_eq!(within(Some("r"), created), expected);
        for name in ["n", "x"] {
            assert_eq!(within(Some(name), created), created);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_the_bytes_come(
            stream in "(data: [a-z{}]{0,4}|\r|\n|\r\n|\n\n|: x|é){0,24}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = stream.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let (events, rest) = split(&chunks);
            prop_assert_eq!(format!("{}{rest}", events.concat()), stream.clone());
            // Whatever comes next decides what a line end in the last place is.
            prop_assert_eq!(split(&[bytes, b"x"]).0, split(&[&chunks.concat()[..], b"x"]).0);
        }
    }
}
