//! What clients and models send as arguments, made to fit the schema of a tool. Numbers come as text or with a
//! point, optional arguments as null, and some clients add keys of their own.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Beyond this, not every whole number has a float of its own.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The arguments of a tool, as far as its schema has them.
pub fn fitted(arguments: JsonObject, schema: &JsonObject) -> JsonObject {
    let known = |key: &str| schema.get("properties")?.get(key)?.get("type")?.as_str();
    let fitted = |(key, value): (String, Value)| {
        let value = match (known(&key)?, value) {
            (_, Value::Null) => return None,
            ("integer", value) => integer(&value).map_or(value, Value::from),
            ("string", Value::Number(number)) => Value::from(number.to_string()),
            (_, value) => value,
        };
        Some((key, value))
    };
    arguments.into_iter().filter_map(fitted).collect()
}

/// A whole number that is written as a text, or with a point.
fn integer(value: &Value) -> Option<i64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    (number.fract() == 0.0 && number.abs() <= MOST_EXACT).then_some(number as i64)
}

/// A schema of arguments in which an optional one has a plain type: some clients know no list of types.
pub fn plain(mut schema: JsonObject) -> JsonObject {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|all| all.values_mut()) {
        let Some(property) = property.as_object_mut() else { continue };
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|name| *name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                property.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if property.get("default") == Some(&Value::Null) {
            property.remove("default");
        }
    }
    // It tells models what there is; what comes beyond is ignored.
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn what_a_model_means_fits() {
        let schema = object(
            json!({"properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}),
        );
        for (sent, expected) in [
            (json!({"query": "x", "limit": "5"}), json!({"query": "x", "limit": 5})),
            (json!({"query": "x", "limit": 5.0}), json!({"query": "x", "limit": 5})),
            (json!({"query": 2024, "limit": null}), json!({"query": "2024"})),
            (json!({"query": "x", "toolCallId": "1"}), json!({"query": "x"})),
            (json!({"limit": "five"}), json!({"limit": "five"})),
            (json!({"limit": 5.5}), json!({"limit": 5.5})),
        ] {
            assert_eq!(fitted(object(sent), &schema), object(expected));
        }
    }
}
