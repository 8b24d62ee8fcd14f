//! The fields beside the messages. Those that Anthropic has under the same name, and those that are
//! unknown here, stay as they are: the endpoint judges them.

use serde_json::{Map, Value, json};

use super::refusals::{quoted, takes_no};

/// What the call itself says. A field cannot take its place.
const OF_THE_CALL: [&str; 5] =
    ["model", "messages", "max_tokens", "max_completion_tokens", "temperature"];

/// What OpenAI defines, and Anthropic's messages have nothing for.
const WITHOUT_COUNTERPART: [&str; 20] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "modalities",
    "n",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "seed",
    "store",
    "stream",
    "stream_options",
    "top_logprobs",
    "verbosity",
    "web_search_options",
];

/// How types of Anthropic's own tools begin if the caller runs them. A tool that Anthropic runs, such as its
/// search, answers in blocks that a chat completion has no place for.
const RUN_BY_THE_CALLER: [&str; 4] = ["bash_", "computer_", "memory_", "text_editor_"];

pub fn translated(mut body: Map<String, Value>) -> Result<Map<String, Value>, String> {
    body.retain(|name, value| !OF_THE_CALL.contains(&name.as_str()) && !is_usual(name, value));
    if let Some(name) = body.keys().find(|name| WITHOUT_COUNTERPART.contains(&name.as_str())) {
        return Err(takes_no(name));
    }
    if body.contains_key("system") {
        return Err("instructions are messages of the role system, not a field".to_owned());
    }
    if let Some(tools) = body.get_mut("tools") {
        *tools = self::tools(tools.take())?;
    }
    if let Some(choice) = body.get_mut("tool_choice") {
        *choice = self::choice(choice.take())?;
    }
    match body.shift_remove("parallel_tool_calls") {
        None => {}
        Some(Value::Bool(_)) => one_call_at_once(&mut body)?,
        Some(_) => return Err("\"parallel_tool_calls\" is neither true nor false".to_owned()),
    }
    match body.shift_remove("stop") {
        None => {}
        Some(stop @ Value::String(_)) => put(&mut body, "stop", "stop_sequences", json!([stop]))?,
        Some(stop @ Value::Array(_)) => put(&mut body, "stop", "stop_sequences", stop)?,
        Some(_) => return Err("\"stop\" is neither a text nor a list".to_owned()),
    }
    // OpenAI has renamed it.
    for name in ["user", "safety_identifier"] {
        if let Some(user) = body.shift_remove(name) {
            put(within(&mut body, "metadata")?, name, "user_id", user)?;
        }
    }
    if let Some(format) = body.shift_remove("response_format") {
        let format = self::format(format)?;
        put(within(&mut body, "output_config")?, "response_format", "format", format)?;
    }
    Ok(body)
}

/// Whether a field says what holds without it.
fn is_usual(name: &str, value: &Value) -> bool {
    match name {
        _ if value.is_null() => true,
        "n" => value.as_f64() == Some(1.0),
        "presence_penalty" | "frequency_penalty" => value.as_f64() == Some(0.0),
        "logprobs" | "store" | "stream" => value == false,
        "parallel_tool_calls" => value == true,
        "modalities" => *value == json!(["text"]),
        "response_format" => value["type"] == "text",
        _ => false,
    }
}

/// Adds what the field `name` says under its name at Anthropic, unless the request says that too.
fn put(
    members: &mut Map<String, Value>,
    name: &str,
    there: &str,
    value: Value,
) -> Result<(), String> {
    match members.insert(there.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(format!("\"{name}\" and \"{there}\" say the same")),
    }
}

/// The object of that name, made if there is none.
fn within<'a>(
    body: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    let value = body.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().ok_or_else(|| format!("\"{name}\" is not an object"))
}

fn tools(tools: Value) -> Result<Value, String> {
    let Value::Array(tools) = tools else { return Err("\"tools\" is not a list".to_owned()) };
    tools.into_iter().map(tool).collect()
}

fn tool(tool: Value) -> Result<Value, String> {
    let Value::Object(mut tool) = tool else { return Err("a tool is not an object".to_owned()) };
    let kind = tool.get("type").filter(|kind| !kind.is_null());
    match kind.map(|kind| kind.as_str().unwrap_or_default()) {
        Some("function") => {}
        // Anthropic's own form.
        kind if kind.is_none_or(is_run_by_the_caller)
            && tool.get("name").is_some_and(Value::is_string) =>
        {
            return Ok(tool.into());
        }
        kind => {
            let kind = quoted(kind.unwrap_or_default());
            return Err(format!("the provider anthropic takes no tools of the type {kind}"));
        }
    }
    tool.shift_remove("type");
    let Some(Value::Object(mut function)) = tool.shift_remove("function") else {
        return Err("a tool of the type function has no function".to_owned());
    };
    function.retain(|_, value| !value.is_null());
    let schema = function.shift_remove("parameters").unwrap_or_else(|| json!({ "type": "object" }));
    function.insert("input_schema".to_owned(), schema);
    // What stands beside the function, such as cache_control, is about the tool.
    function.extend(tool);
    Ok(function.into())
}

fn is_run_by_the_caller(kind: &str) -> bool {
    kind == "custom" || RUN_BY_THE_CALLER.iter().any(|beginning| kind.starts_with(beginning))
}

fn choice(choice: Value) -> Result<Value, String> {
    let kind = choice.as_str().or_else(|| choice["type"].as_str()).unwrap_or_default();
    let own = ["auto", "any", "tool", "none"];
    Ok(match kind {
        "auto" | "none" if choice.is_string() => json!({ "type": kind }),
        "required" if choice.is_string() => json!({ "type": "any" }),
        "function" if choice["function"]["name"].is_string() => {
            json!({ "type": "tool", "name": choice["function"]["name"] })
        }
        _ if choice.is_object() && own.contains(&kind) => choice,
        _ => {
            let kind = quoted(kind);
            return Err(format!("the provider anthropic takes no \"tool_choice\" of {kind}"));
        }
    })
}

/// Says that the model may call one tool only, as far as it may call any.
fn one_call_at_once(body: &mut Map<String, Value>) -> Result<(), String> {
    let choice = within(body, "tool_choice")?;
    if choice.is_empty() {
        choice.insert("type".to_owned(), "auto".into());
    }
    if choice.get("type").is_some_and(|kind| kind != "none") {
        choice.insert("disable_parallel_tool_use".to_owned(), true.into());
    }
    Ok(())
}

/// The schema of the answer. There is always one: no mode asks for any JSON.
fn format(mut format: Value) -> Result<Value, String> {
    if format["type"] != "json_schema" {
        let kind = quoted(format["type"].as_str().unwrap_or_default());
        return Err(format!(
            "the provider anthropic takes no \"response_format\" of the type {kind}"
        ));
    }
    let schema = format.pointer_mut("/json_schema/schema").map(Value::take);
    let Some(Value::Object(mut schema)) = schema else {
        return Err("\"response_format\" has no schema".to_owned());
    };
    if let Some(description @ Value::String(_)) = format.pointer("/json_schema/description") {
        schema.entry("description").or_insert_with(|| description.clone());
    }
    Ok(json!({ "type": "json_schema", "schema": schema }))
}
