//! The server over real connections on this machine, mostly with the fake model.

mod chat;
mod leaving;
mod llama;
mod safety;
mod support;
