//! Integration tests of packscope.
