//! The first screen of a user without memories: three ways to begin.

use super::request::Asked;
use maud::{Markup, html};

/// The three ways. The form to add a memory stands below them.
pub fn show(asked: &Asked) -> Markup {
    let origin = &asked.origin;
    let needs_token = asked.visit.has_signed_in;
    html! {
        p.lead { "Nothing is remembered yet. There are three ways to begin." }
        ol.ways {
            li {
                h2 { "Chat through the gateway" }
                p { "Change the address of a program that speaks OpenAI's API. What you say to it is remembered." }
                pre tabindex="0" { code {
                    "curl " (origin) "/v1/chat/completions \\\n"
                    @if needs_token { "  -H \"x-memory-token: YOUR_TOKEN\" \\\n" }
                    "  -H \"Authorization: Bearer $OPENAI_API_KEY\" \\\n\
                     \u{20} -H \"Content-Type: application/json\" \\\n\
                     \u{20} -d '{\"model\": \"gpt-4o-mini\", \"messages\":\n\
                     \u{20}      [{\"role\": \"user\", \"content\": \"I live in Porto.\"}]}'"
                } }
            }
            li {
                h2 { "Connect an assistant (MCP)" }
                p { "Claude, Cursor, VS Code and others get tools to search, add and correct memories." }
                pre tabindex="0" { code {
                    "claude mcp add --transport http memory " (origin) "/mcp"
                    @if needs_token { " \\\n  --header \"x-memory-token: YOUR_TOKEN\"" }
                } }
            }
            li {
                h2 { "Import your conversations" }
                p { "Of ChatGPT, Claude and Claude Code, or the memories of mem0: the archive as it was delivered." }
                p { a.button href="/ui/files#import" { "Import" } }
            }
        }
    }
}
