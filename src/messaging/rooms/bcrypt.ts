/** The hashes of room keys, in a module of their own so that their native package can be loaded late. */
export { hash, verify } from '@node-rs/bcrypt';
