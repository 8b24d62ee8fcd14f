//! Changing a JSON document where it has to change, and nowhere else: where the members of an object
//! and the elements of an array stand, and edits by byte ranges. Numbers, the order of keys, white space
//! and fields that the gateway does not know stay as they came, because nothing is read and written again.

use memory_agent_core::text::half_characters::mended;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// Members of an object, or elements of an array, that are looked at. What is read of each takes far more
/// memory than the two bytes that it may have in the document.
const MAX_ITEMS: usize = 100_000;

/// A member of an object: its name, and where name and value stand in the document.
#[derive(Debug)]
pub struct Member<'a> {
    /// The name without quotes and escapes; as it is written where that is no text.
    pub name: String,
    name_at: Range<usize>,
    /// The value as it is written.
    pub value: &'a str,
    /// Where the value stands, in bytes of the document.
    pub at: Range<usize>,
}

/// The members of an object, in their order; a name may come twice.
#[derive(Debug)]
pub struct Object<'a>(pub Vec<Member<'a>>);

impl<'a> Object<'a> {
    /// Reads `text`, which is a part of `document` or all of it; `None` unless it is an object, and not a
    /// monstrous one.
    pub fn read(document: &str, text: &'a str) -> Option<Self> {
        let members: Members<'a> = serde_json::from_str(text).ok()?;
        let member = |(name, value): (&'a RawValue, &'a RawValue)| Member {
            // Half a surrogate pair is no text. It is no name that the gateway knows either.
            name: serde_json::from_str(name.get()).unwrap_or_else(|_| name.get().to_owned()),
            name_at: place(document, name.get()),
            value: value.get(),
            at: place(document, value.get()),
        };
        Some(Self(members.0.into_iter().map(member).collect()))
    }

    /// The last member of this name: the one that counts for most readers.
    pub fn get(&self, name: &str) -> Option<&Member<'a>> {
        self.0.iter().rev().find(|member| member.name == name)
    }

    /// A text under this name.
    pub fn text(&self, name: &str) -> Option<String> {
        text(self.get(name)?.value)
    }

    /// The edits that take members out, with the commas that stood between them.
    pub fn without(&self, is_unwanted: impl Fn(&str) -> bool) -> Vec<Edit> {
        let places: Vec<Range<usize>> =
            self.0.iter().map(|member| member.name_at.start..member.at.end).collect();
        removals(&places, |number| is_unwanted(&self.0[number].name))
    }
}

/// The elements of an array, as they are written.
#[derive(Debug)]
pub struct Array<'a>(pub Vec<&'a str>);

impl<'a> Array<'a> {
    /// `None` unless the text is an array, and not a monstrous one.
    pub fn read(text: &'a str) -> Option<Self> {
        let elements: Elements<'a> = serde_json::from_str(text).ok()?;
        Some(Self(elements.0))
    }

    /// The edits that take elements out, by their number.
    pub fn without(&self, document: &str, is_unwanted: impl Fn(usize) -> bool) -> Vec<Edit> {
        let places: Vec<Range<usize>> =
            self.0.iter().map(|element| place(document, element)).collect();
        removals(&places, is_unwanted)
    }
}

/// Other bytes in the place of a range of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What goes, in bytes of the document; empty for an insertion.
    pub at: Range<usize>,
    /// What comes.
    pub text: String,
}

/// The document with all edits made. They may come in any order, and must not overlap.
pub fn edited(document: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.at.start);
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut result = String::with_capacity(document.len() + added);
    let mut done = 0;
    for edit in edits {
        result.push_str(document.get(done..edit.at.start).unwrap_or_default());
        result.push_str(&edit.text);
        done = edit.at.end;
    }
    result.push_str(document.get(done..).unwrap_or_default());
    result
}

/// The edit that adds a member at the end of the object that ends the document; `value` is JSON.
/// `None` when the document does not end with an object.
pub fn added_member(document: &str, name: &str, value: &str) -> Option<Edit> {
    let end = document.trim_end().len().checked_sub(1)?;
    let before = document.get(..end)?.trim_end();
    if document.as_bytes().get(end) != Some(&b'}') || before.is_empty() {
        return None;
    }
    let comma = if before.ends_with('{') { "" } else { "," };
    let name = quoted(name);
    Some(Edit { at: end..end, text: format!("{comma}{name}:{value}") })
}

/// The text that a JSON string says; where half a character stands in it, U+FFFD.
pub fn text(json: &str) -> Option<String> {
    let whole = serde_json::from_str(json).ok();
    whole.or_else(|| serde_json::from_str(&mended(json)).ok().filter(|_| json.starts_with('"')))
}

/// A text as a JSON string, with its quotes.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Where a part of the document stands in it.
pub fn place(document: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(document.as_ptr() as usize);
    start..start + part.len()
}

/// Takes items of a comma-separated list out. What goes with an item is the comma after it; with the last
/// one that stays, everything after it.
fn removals(places: &[Range<usize>], is_unwanted: impl Fn(usize) -> bool) -> Vec<Edit> {
    let unwanted: Vec<bool> = (0..places.len()).map(is_unwanted).collect();
    let kept = unwanted.iter().rposition(|unwanted| !unwanted);
    let mut edits = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let Some(next) = places.get(number + 1) else { break };
        if unwanted[number] && kept.is_some_and(|kept| number < kept) {
            edits.push(Edit { at: place.start..next.start, text: String::new() });
        }
    }
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return edits };
    let rest = match kept {
        Some(kept) => places[kept].end..last.end,
        None => first.start..last.end,
    };
    if !rest.is_empty() {
        edits.push(Edit { at: rest, text: String::new() });
    }
    edits
}

/// Names and values of an object as they are written.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    if members.len() == MAX_ITEMS {
                        return Err(A::Error::custom("too many members"));
                    }
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader).map(Members)
    }
}

/// Elements of an array as they are written.
struct Elements<'a>(Vec<&'a str>);

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<&'de str>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element::<&'de RawValue>()? {
                    if elements.len() == MAX_ITEMS {
                        return Err(A::Error::custom("too many elements"));
                    }
                    elements.push(element.get());
                }
                Ok(elements)
            }
        }
        deserializer.deserialize_seq(Reader).map(Elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn without(document: &str, prefix: &str) -> String {
        let object = Object::read(document, document).unwrap();
        edited(document, object.without(|name| name.starts_with(prefix)))
    }

    #[test]
    fn members_go_and_everything_else_stays_as_it_was_written() {
        for (document, expected) in [
            (r#"{"memory_id":"x"}"#, "{}"),
            (r#"{ "memory_id" : "x" , "memory_top_k":3 }"#, "{  }"),
            (r#"{"a":1.0,"memory_id":"x"}"#, r#"{"a":1.0}"#),
            // Half an emoji as a name.
            (r#"{"\ud83d":1,"memory_id":"x"}"#, r#"{"\ud83d":1}"#),
            (r#"{"memory_id":"x","a":1.0}"#, r#"{"a":1.0}"#),
            (
                r#"{"z":12345678901234567890123, "memory_id":null,"memory_x":[1,{"a":"}"}] ,"a":1e400}"#,
                r#"{"z":12345678901234567890123, "a":1e400}"#,
            ),
            (r#"{"a":1,"memory_b":2,"c":3,"memory_d":4,"memory_e":5}"#, r#"{"a":1,"c":3}"#),
            (
                "{\"a\": 1.50,\n \"memory\\u005fid\": 1,\n \"a\": 2}\n",
                "{\"a\": 1.50,\n \"a\": 2}\n",
            ),
        ] {
            assert_eq!(without(document, "memory_"), expected, "{document}");
        }
    }

    #[test]
    fn what_is_no_object_is_none() {
        for text in ["", "[]", "1", "{", r#"{"a":}"#, r#"{"a":1} x"#] {
            assert!(Object::read(text, text).is_none(), "{text}");
        }
    }

    #[test]
    fn monstrous_documents_are_not_read() {
        let many = |item: &str, count: usize| vec![item; count].join(",");
        for (count, is_read) in [(MAX_ITEMS, true), (MAX_ITEMS + 1, false)] {
            let object = format!("{{{}}}", many("\"\":0", count));
            assert_eq!(Object::read(&object, &object).is_some(), is_read);
            assert_eq!(Array::read(&format!("[{}]", many("0", count))).is_some(), is_read);
        }
        // Depth takes no stack.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(Object::read(&deep, &deep).is_some());
    }

    #[test]
    fn elements_go_by_their_number() {
        let document = r#"{"parts": [ {"n":1} , 2,[3],4 ]}"#;
        let object = Object::read(document, document).unwrap();
        let array = Array::read(object.get("parts").unwrap().value).unwrap();
        let kept = |numbers: &[usize]| {
            edited(document, array.without(document, |number| !numbers.contains(&number)))
        };
        assert_eq!(kept(&[0, 2]), r#"{"parts": [ {"n":1} , [3] ]}"#);
        assert_eq!(kept(&[3]), r#"{"parts": [ 4 ]}"#);
        assert_eq!(kept(&[]), r#"{"parts": [  ]}"#);
    }

    #[test]
    fn a_member_is_added_at_the_end() {
        for (document, expected) in [
            (r#"{"a":1}"#, r#"{"a":1,"h":[]}"#),
            ("{\"a\":1 } \n", "{\"a\":1 ,\"h\":[]} \n"),
            ("{}", r#"{"h":[]}"#),
        ] {
            let edit = added_member(document, "h", "[]").unwrap();
            assert_eq!(edited(document, vec![edit]), expected);
        }
        for document in ["", "}", "[1]", "x"] {
            assert!(added_member(document, "h", "[]").is_none(), "{document}");
        }
    }

    /// Any JSON document, pretty or not.
    fn documents() -> impl Strategy<Value = (Value, bool)> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from)
        ];
        let value = leaf.prop_recursive(2, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        });
        let name = prop_oneof!["memory_[a-c]", "[a-c]", ".{0,3}"];
        let members = prop::collection::vec((name, value), 0..6);
        (members.prop_map(|members| Value::Object(members.into_iter().collect())), any::<bool>())
    }

    proptest! {
        #[test]
        fn removing_is_what_reading_and_writing_would_do((value, pretty) in documents()) {
            let document = if pretty { format!("{value:#}") } else { value.to_string() };
            let mut expected: Map<String, Value> = value.as_object().unwrap().clone();
            expected.retain(|name, _| !name.starts_with("memory_"));
            let left: Value = serde_json::from_str(&without(&document, "memory_")).unwrap();
            prop_assert_eq!(left, Value::Object(expected));
        }

        #[test]
        fn a_text_is_quoted_as_json(text in ".*") {
            prop_assert_eq!(serde_json::from_str::<String>(&quoted(&text)).unwrap(), text);
        }

        #[test]
        fn adding_is_adding((value, _) in documents(), text in ".*") {
            let document = value.to_string();
            let edit = added_member(&document, "added at the end", &quoted(&text)).unwrap();
            let mut expected = value;
            expected["added at the end"] = json!(text);
            let read: Value = serde_json::from_str(&edited(&document, vec![edit])).unwrap();
            prop_assert_eq!(read, expected);
        }
    }
}
