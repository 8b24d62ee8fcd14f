//! Prepared plans, kept for the life of the backend. A plan may be wanted again while it runs: what a row
//! runs (a cast, a trigger, a policy) may call our functions, as deep as the stack goes. So a plan is freed
//! only when nothing uses it.
#![allow(unsafe_code)]

use crate::pg::error::{Error, PgResult};
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::rc::Rc;

/// Plans kept per backend. Statements differ only by optional clauses, so a few dozen suffice. There are
/// more only while more of them are in use at once.
const PLANS_KEPT: usize = 96;

/// The text of a statement and the types of its parameters.
type PlanKey = (String, Vec<pg_sys::Oid>);

/// A kept plan and when it was last asked for, in statements.
struct Kept {
    plan: pg_sys::SPIPlanPtr,
    used: Cell<u64>,
}

thread_local! {
    /// Never borrowed while PostgreSQL runs anything.
    static PLANS: RefCell<HashMap<PlanKey, Rc<Kept>>> = RefCell::default();
    static STATEMENTS: Cell<u64> = const { Cell::new(0) };
}

/// A plan in use: it is not freed before this is dropped. Dropping it asks nothing of PostgreSQL, so it may
/// happen while an ERROR unwinds.
pub struct Plan(Rc<Kept>);

impl Plan {
    pub fn as_ptr(&self) -> pg_sys::SPIPlanPtr {
        self.0.plan
    }
}

/// The kept plan of a statement, prepared on first use. SPI is connected.
pub fn plan(sql: &str, types: &mut [pg_sys::Oid]) -> PgResult<Plan> {
    let key = (sql.to_owned(), types.to_vec());
    let now = STATEMENTS.get() + 1;
    STATEMENTS.set(now);
    let known = PLANS.with_borrow(|plans| plans.get(&key).cloned());
    if let Some(kept) = known {
        kept.used.set(now);
        return Ok(Plan(kept));
    }
    let text = CString::new(sql).map_err(|_| Error::internal("a statement contains NUL"))?;
    // SAFETY: the array has as many elements as it says. keepplan moves the plan to memory that lives until
    // it is freed; nothing that may fail comes between it and the cache.
    let plan = unsafe {
        let plan = pg_sys::SPI_prepare(text.as_ptr(), types.len() as c_int, types.as_mut_ptr());
        if plan.is_null() || pg_sys::SPI_keepplan(plan) != 0 {
            return Err(Error::internal("a statement could not be prepared"));
        }
        plan
    };
    let kept = Rc::new(Kept { plan, used: Cell::new(now) });
    let unused = PLANS.with_borrow_mut(|plans| {
        // Whatever runs while a statement is prepared may have led to the same statement.
        let replaced = plans.insert(key, Rc::clone(&kept));
        let mut unused = take_excess(plans);
        unused.extend(replaced);
        unused
    });
    for kept in unused.into_iter().filter_map(Rc::into_inner) {
        // SAFETY: it is in the cache no more, and this was the last hold on it.
        unsafe { pg_sys::SPI_freeplan(kept.plan) };
    }
    Ok(Plan(kept))
}

/// Takes plans out of the cache that are too many, those that were not asked for longest. What is in use
/// stays, and goes when it is not and another statement is prepared.
fn take_excess(plans: &mut HashMap<PlanKey, Rc<Kept>>) -> Vec<Rc<Kept>> {
    let mut excess = Vec::new();
    while plans.len() > PLANS_KEPT {
        let idle = plans.iter().filter(|(_, kept)| Rc::strong_count(kept) == 1);
        let oldest = idle.min_by_key(|(_, kept)| kept.used.get()).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { break };
        excess.extend(plans.remove(&oldest));
    }
    excess
}
