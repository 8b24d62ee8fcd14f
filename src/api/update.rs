//! `memory_update`: a turn, a fact or a document gets another text.

use crate::api::lifecycle::given_id;
use crate::api::prelude::*;
use crate::memory::changes::update::update;

#[pg_extern(sql = false)]
fn memory_update(
    _limits: WithinLimits,
    id: Option<Uuid>,
    content: Option<String>,
    user_id: Option<String>,
) -> PgResult<Uuid> {
    let caller = identity::resolve(user_id.as_deref(), None, Level::User)?;
    let id = given_id(id)?;
    let content = content.unwrap_or_default();
    check_content(&content, &Content::current())?;
    update(&caller.user_id, id, content)
}
