//! How clients talk to a node.
