//! Generated worlds: random steps and faults, judged like the stories.
