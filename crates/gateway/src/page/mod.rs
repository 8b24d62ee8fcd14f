//! `/ui`: the page on which people see what is remembered of them, and change it. Every answer is made
//! here as HTML; the one script serves the slider of time. What memory holds is shown as text, whatever
//! it is: it reaches the page through `maud`, which escapes it.

mod background;
mod change;
mod erase;
mod facts;
mod files;
mod frame;
mod login;
mod parts;
mod request;
mod rows;
mod search;
mod sessions;
mod single_memory;
mod uploads;
mod usage;
mod visits;

use crate::gateway::Gateway;
use crate::shares::Shares;
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use request::{Answer, Asked, Trouble};
use std::net::SocketAddr;
use std::sync::Arc;
use visits::Visits;

/// The first path of the page.
pub const ROOT: &str = "/ui";

/// What every view needs.
pub struct Page {
    gateway: Arc<Gateway>,
    visits: Visits,
    /// One at a time for each user.
    imports: Shares,
}

/// All paths that begin with [`ROOT`].
///
/// # Errors
/// That the system has no random numbers.
pub fn router(gateway: Arc<Gateway>) -> Result<Router, String> {
    let page = Arc::new(Page { gateway, visits: Visits::new()?, imports: Shares::new(1) });
    let router = Router::new()
        .route(ROOT, view(facts::show))
        .route("/ui/sessions", view(sessions::list))
        .route("/ui/session", view(sessions::show))
        .route("/ui/search", view(search::show))
        .route("/ui/memory/{id}", view(single_memory::show))
        .route("/ui/memory/{id}/correct", form(change::correct))
        .route("/ui/memory/{id}/forget", form(change::forget))
        .route("/ui/memory/{id}/restore", form(change::restore))
        .route("/ui/erase", form(erase::show))
        .route("/ui/erased", form(erase::erase))
        .route("/ui/files", view(files::show))
        .route("/ui/export", view(files::export))
        .route("/ui/import", form(files::import))
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
