//! The server over real connections on this machine, mostly with the fake model.

mod chat;
mod clients;
mod crowds;
mod demo;
mod harmony;
mod leaving;
mod llama;
mod loss;
#[path = "../matrix/mod.rs"]
mod matrix;
mod messages;
mod named;
mod ollama;
mod open_webui;
mod qwen3_5;
mod reports;
mod responses;
mod safety;
mod support;
mod tools;
