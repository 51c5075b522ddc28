//! The server over real connections on this machine, mostly with the fake model.

mod chat;
mod crowds;
mod demo;
mod leaving;
mod llama;
mod ollama;
mod reports;
mod safety;
mod support;
mod tools;
