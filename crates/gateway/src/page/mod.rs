//! `/ui`: the page on which people see what is remembered of them, and change it. Every answer is made
//! here as HTML, and everything works without the one script, which saves people clicks. What memory holds is shown
//! as text, whatever it is: it reaches the page through `maud`, which escapes it.

mod background;
mod change;
mod conversations;
mod erase;
mod fact_rows;
mod facts;
mod files;
mod first_steps;
mod frame;
mod known;
mod login;
mod notice;
mod one_session;
mod opening;
mod parts;
mod prompt;
mod quota;
mod request;
mod rows;
mod search;
mod sessions;
mod single_memory;
mod timeline;
mod uploads;
mod usage;
mod verdict;
mod visits;

use crate::gateway::Gateway;
use crate::people::shares::Shares;
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use request::{Answer, Asked, Trouble};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use visits::Visits;

/// The first path of the page.
pub const ROOT: &str = "/ui";

/// What every view needs.
pub struct Page {
    gateway: Arc<Gateway>,
    visits: Visits,
    /// One at a time for each user.
    imports: Shares,
    /// How many memories each of them has stored.
    stored: Mutex<HashMap<String, u64>>,
}

impl Page {
    /// Takes down how far an import has come.
    fn progress(&self, user_id: &str, stored: u64) {
        let mut all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(user_id.to_owned(), stored);
    }

    /// Forgets it when the import has ended.
    fn end_progress(&self, user_id: &str) {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).remove(user_id);
    }

    fn stored_so_far(&self, user_id: &str) -> Option<u64> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).get(user_id).copied()
    }
}

/// All paths that begin with [`ROOT`].
///
/// # Errors
/// That the system has no random numbers.
pub fn router(gateway: Arc<Gateway>) -> Result<Router, String> {
    let page = Arc::new(Page {
        gateway,
        visits: Visits::new()?,
        imports: Shares::new(1),
        stored: Mutex::default(),
    });
    let router = Router::new()
        .route(ROOT, view(facts::show))
        .route("/ui/sessions", view(sessions::list))
        .route("/ui/session", view(one_session::show))
        .route("/ui/search", view(search::show))
        .route("/ui/prompt", view(prompt::show))
        .route("/ui/add", form(change::add))
        .route("/ui/forget", form(change::forget))
        .route("/ui/restore", form(change::restore))
        .route("/ui/memory/{id}", view(single_memory::show))
        .route("/ui/memory/{id}/correct", form(change::correct))
        .route("/ui/memory/{id}/forget", form(change::forget))
        .route("/ui/memory/{id}/restore", form(change::restore))
        .route("/ui/erase", form(erase::show))
        .route("/ui/erased", form(erase::erase))
        .route("/ui/files", view(files::show))
        .route("/ui/export", view(files::export))
        .route("/ui/import", form(files::import))
        .route("/ui/import/preview", form(files::preview))
        .route("/ui/import/progress", view(files::progress))
        .route("/ui/background", view(background::show))
        .route("/ui/retry", form(background::retry))
        .route("/ui/login", get(login::show).post(login::enter))
        .route("/ui/logout", form(login::leave))
        .route("/ui/page.css", asset("text/css; charset=utf-8", include_str!("page.css")))
        .route("/ui/page.js", asset("text/javascript; charset=utf-8", include_str!("page.js")))
        .route("/ui/icon.svg", asset("image/svg+xml", include_str!("icon.svg")))
        .route("/ui/{*other}", view(async |_| Err(Trouble::nothing_here())))
        .with_state(page);
    Ok(router)
}

/// What is shown with GET.
fn view<Show, Shown>(show: Show) -> MethodRouter<Arc<Page>>
where
    Show: Fn(Asked) -> Shown + Clone + Send + Sync + 'static,
    Shown: Future<Output = Result<Answer, Trouble>> + Send,
{
    get(
        async move |State(page): State<Arc<Page>>,
                    ConnectInfo(peer): ConnectInfo<SocketAddr>,
                    request: Request| { request::answer(page, peer, request, show).await },
    )
}

/// What is done with POST, by a form of the page.
fn form<Show, Shown>(show: Show) -> MethodRouter<Arc<Page>>
where
    Show: Fn(Asked) -> Shown + Clone + Send + Sync + 'static,
    Shown: Future<Output = Result<Answer, Trouble>> + Send,
{
    post(
        async move |State(page): State<Arc<Page>>,
                    ConnectInfo(peer): ConnectInfo<SocketAddr>,
                    request: Request| { request::answer(page, peer, request, show).await },
    )
}

/// A file that is part of the program. Its address changes with the program's version.
fn asset(kind: &'static str, text: &'static str) -> MethodRouter<Arc<Page>> {
    get(async move || {
        let headers = [
            (CONTENT_TYPE, kind),
            (CACHE_CONTROL, "public, max-age=86400"),
            (axum::http::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (headers, text).into_response()
    })
}
