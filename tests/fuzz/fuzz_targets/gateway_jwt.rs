#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory_agent_fuzz::gateway_jwt::check(data));
