// Types of style sheets that are imported.

declare module "*.css";
