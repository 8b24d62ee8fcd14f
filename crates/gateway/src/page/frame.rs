//! What surrounds every view: the head of the document, the way around, what went wrong.

use super::request::{FORM_TOKEN, Trouble, Visit, with_headers};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

/// Where a view belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    Facts,
    Sessions,
    Search,
    Prompt,
    Files,
    Background,
    Elsewhere,
}

const WAYS: [(Here, &str, &str); 6] = [
    (Here::Facts, "/ui", "What is known"),
    (Here::Sessions, "/ui/sessions", "Sessions"),
    (Here::Search, "/ui/search", "Search"),
    (Here::Prompt, "/ui/prompt", "What the model sees"),
    (Here::Files, "/ui/files", "Your data"),
    (Here::Background, "/ui/background", "Background work"),
];

/// A whole page.
pub fn page(visit: Option<&Visit>, here: Here, title: &str, body: &Markup) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · Memory" }
                link rel="icon" type="image/svg+xml" href={ "/ui/icon.svg?v=" (version) };
                link rel="stylesheet" href={ "/ui/page.css?v=" (version) };
                script src={ "/ui/page.js?v=" (version) } defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/ui" aria-label="Memory" {
                        img src={ "/ui/icon.svg?v=" (version) } alt="" width="24" height="24";
                        span { "Memory" }
                    }
                    @if let Some(visit) = visit {
                        nav aria-label="Views" {
                            ul {
                                @for (place, path, name) in WAYS {
                                    li {
                                        a href=(path) aria-current=[(here == place).then_some("page")] { (name) }
                                    }
                                }
                            }
                        }
                        (who(visit))
                    }
                }
                main #main tabindex="-1" { (body) }
            }
        }
    };
    with_headers(
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], document.into_string()).into_response(),
    )
}

/// Whose memory it is, and the way out for who has signed in.
fn who(visit: &Visit) -> Markup {
    let user = &visit.person.user_id;
    let initial: String = user.chars().take(1).flat_map(char::to_uppercase).collect();
    let shown = html! {
        span.avatar aria-hidden="true" { (initial) }
        span.user title="Whose memory this is" { (user) }
    };
    html! {
        @if visit.has_signed_in {
            details.who.menu {
                summary { (shown) }
                div.popup {
                    p.muted { "Signed in as " b { (user) } }
                    form method="post" action="/ui/logout" {
                        (form_token(visit))
                        button type="submit" { "Sign out" }
                    }
                }
            }
        } @else {
            div.who { (shown) }
        }
    }
}

/// The hidden field of every form that is sent with POST.
pub fn form_token(visit: &Visit) -> Markup {
    html! { input type="hidden" name=(FORM_TOKEN) value=(visit.form_token); }
}

/// The page that says what went wrong.
pub fn trouble(visit: Option<&Visit>, trouble: &Trouble) -> Response {
    let body = html! {
        h1 { (trouble.title()) }
        div.note.bad role="alert" {
            p { (trouble.message) }
            @if let Some(hint) = &trouble.hint { p.muted { (hint) } }
        }
        p { a.button href="/ui" { "Go to what is known" } }
    };
    let mut response = page(visit, Here::Elsewhere, trouble.title(), &body);
    trouble.mark(&mut response);
    response
}
