export * from "./reasonix.js";
