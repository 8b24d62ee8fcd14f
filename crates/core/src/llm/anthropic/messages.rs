//! The messages. Instructions have a place of their own at Anthropic, users and the assistant take turns,
//! and what tools say is said by the user's side.

use serde_json::{Map, Value, json};

use super::refusals::{quoted, takes_no};

/// The instructions, if there are any, and the turns.
pub fn translated(messages: Vec<Value>) -> Result<(Option<Value>, Vec<Value>), String> {
    let mut system = Vec::new();
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (number, message) in (1..).zip(messages) {
        let Value::Object(message) = message else {
            return Err(format!("message {number}: it is not an object"));
        };
        let (role, blocks) =
            blocks(message).map_err(|reason| format!("message {number}: {reason}"))?;
        match turns.last_mut() {
            _ if role == "system" => system.extend(blocks),
            _ if blocks.is_empty() => {}
            Some((last, said)) if *last == role => said.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    let turns = turns.into_iter().map(|(role, mut blocks)| {
        // The answer to calls of tools begins with their results.
        blocks.sort_by_key(|block| block["type"] != "tool_result");
        json!({ "role": role, "content": blocks })
    });
    Ok((joined(system), turns.collect()))
}

/// One text, unless a part says more than its text, such as cache_control.
fn joined(system: Vec<Value>) -> Option<Value> {
    let text = |block: &Value| match block.as_object() {
        Some(members) if members.len() == 2 => block["text"].as_str().map(str::to_owned),
        _ => None,
    };
    if system.is_empty() {
        return None;
    }
    let texts: Option<Vec<String>> = system.iter().map(text).collect();
    Some(texts.map_or_else(|| system.into(), |texts| texts.join("\n\n").into()))
}

/// Whose turn a message belongs to, and what it adds to it.
fn blocks(mut message: Map<String, Value>) -> Result<(&'static str, Vec<Value>), String> {
    let role = message.shift_remove("role").unwrap_or_default();
    let name = message.shift_remove("name").unwrap_or_default();
    let mut blocks = content(message.shift_remove("content").unwrap_or_default())?;
    let role = match role.as_str().unwrap_or_default() {
        "system" | "developer" => "system",
        "assistant" => {
            // Before what it said: so the endpoint wants them back while it thinks.
            let mut thoughts = list(&mut message, "thinking_blocks")?;
            thoughts.append(&mut blocks);
            blocks = thoughts;
            for call in list(&mut message, "tool_calls")? {
                blocks.push(tool_use(&call)?);
            }
            "assistant"
        }
        "user" => {
            said_by(name.as_str().unwrap_or_default(), &mut blocks);
            "user"
        }
        "tool" => {
            blocks = vec![tool_result(message.shift_remove("tool_call_id"), blocks)?];
            "user"
        }
        role => {
            return Err(format!(
                "the provider anthropic takes no messages of the role {}; results of tools have the role \
                 tool and a tool_call_id",
                quoted(role)
            ));
        }
    };
    // Clients send back members that say nothing: "refusal": null, "annotations": [].
    let says =
        |value: &Value| !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty());
    match message.iter().find(|(_, value)| says(value)) {
        Some((name, _)) => Err(takes_no(name)),
        None => Ok((role, blocks)),
    }
}

fn list(message: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>, String> {
    match message.shift_remove(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("its {name} are not a list")),
    }
}

/// The parts of a content. Anthropic refuses texts that are blank.
fn content(content: Value) -> Result<Vec<Value>, String> {
    let mut blocks = match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(parts) => parts.into_iter().map(part).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    blocks.retain(|block| {
        block["type"] != "text"
            || block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
    });
    Ok(blocks)
}

fn part(mut part: Value) -> Result<Value, String> {
    match part["type"].as_str().unwrap_or_default() {
        "image_url" => {
            let image = part["image_url"].take();
            let Some(url) = image["url"].as_str() else {
                return Err("an image has no URL".to_owned());
            };
            if !(image["detail"].is_null() || image["detail"] == "auto") {
                return Err(takes_no("detail"));
            }
            let source = source(url)?;
            if let Some(members) = part.as_object_mut() {
                members.shift_remove("image_url");
                members.insert("type".to_owned(), "image".into());
                members.insert("source".to_owned(), source);
            }
            Ok(part)
        }
        kind @ ("input_audio" | "file" | "refusal") => {
            Err(format!("the provider anthropic takes no parts of the type \"{kind}\""))
        }
        // Texts are the same in both formats, and what is unknown here may be Anthropic's.
        _ => Ok(part),
    }
}

/// Where an image is.
fn source(url: &str) -> Result<Value, String> {
    let Some(inline) = url.strip_prefix("data:") else {
        return Ok(json!({ "type": "url", "url": url }));
    };
    let (described, data) = inline.split_once(',').unwrap_or_default();
    let Some(media_type) = described.strip_suffix(";base64") else {
        return Err("the data: URL of an image is not base64".to_owned());
    };
    let media_type = media_type.split(';').next().unwrap_or_default();
    Ok(json!({ "type": "base64", "media_type": media_type, "data": data }))
}

/// Puts the name of who speaks before the first text.
fn said_by(name: &str, blocks: &mut Vec<Value>) {
    if name.trim().is_empty() || blocks.is_empty() {
        return;
    }
    match blocks.iter_mut().find(|block| block["type"] == "text") {
        Some(block) => {
            let text = block["text"].as_str().unwrap_or_default();
            block["text"] = format!("{name}: {text}").into();
        }
        None => blocks.insert(0, json!({ "type": "text", "text": format!("{name}:") })),
    }
}

fn tool_use(call: &Value) -> Result<Value, String> {
    let function = &call["function"];
    let (Some(id), Some(name)) = (call["id"].as_str(), function["name"].as_str()) else {
        return Err("a call of a tool has no id, or its function no name".to_owned());
    };
    let input = match &function["arguments"] {
        Value::Null => Some(Map::new()),
        Value::String(text) if text.trim().is_empty() => Some(Map::new()),
        Value::String(text) => serde_json::from_str(text).ok(),
        // Some servers do not write it as a text.
        Value::Object(members) => Some(members.clone()),
        _ => None,
    };
    let Some(input) = input else {
        return Err(format!("the arguments of a call of {} are not a JSON object", quoted(name)));
    };
    Ok(json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
}

fn tool_result(id: Option<Value>, blocks: Vec<Value>) -> Result<Value, String> {
    let Some(Value::String(id)) = id else {
        return Err("it has no tool_call_id".to_owned());
    };
    let mut result = json!({ "type": "tool_result", "tool_use_id": id });
    if !blocks.is_empty() {
        result["content"] = blocks.into();
    }
    Ok(result)
}
