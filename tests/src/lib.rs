//! Stories told over whole nodes.
