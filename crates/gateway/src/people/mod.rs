//! Who calls: tokens, users, what each may do and spend, and how much of the gateway each gets.

pub mod admins;
pub mod authentication;
pub mod fair_table;
pub mod jwt;
pub mod queries;
pub mod rates;
pub mod secret;
pub mod shares;
pub mod spending;
