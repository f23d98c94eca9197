-- Calls for a person at redis-cli: words in, JSON out.
do

end
