//! JSON that is passed on without a change: its numbers keep every digit, its objects their order.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value as it is written: no digit of a number is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(pub String);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.clone()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.get().to_owned()))
    }
}

/// The members of a JSON object, in their order and as they are written.
#[derive(Default)]
pub struct Object(pub Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_changed() {
        let written = r#"{"z":1.10,"a":1e400,"n":null,"o":{"b": [1, 2]}}"#;
        let Object(members) = serde_json::from_str(written).unwrap();
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["z", "a", "n", "o"]);
        let values: Vec<String> =
            members.iter().map(|(_, value)| serde_json::to_string(value).unwrap()).collect();
        assert_eq!(values, ["1.10", "1e400", "null", r#"{"b": [1, 2]}"#]);
        assert!(serde_json::from_str::<Object>("[]").is_err());
        assert!(serde_json::to_string(&Json("{".to_owned())).is_err());
    }
}
