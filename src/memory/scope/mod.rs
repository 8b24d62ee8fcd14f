//! Which settings, endpoints and models hold for a user, an agent and a session.

pub mod active_model;
pub mod checks;
pub mod configure;
pub mod endpoints;
pub mod model_registry;
pub mod scope_settings;
pub mod state;
